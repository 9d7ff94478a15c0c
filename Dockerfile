# Layers that change rarely come first: torch, the other packages, weights, code. One image for the CPU and for GPUs:
#   docker build -t canopy .
#   docker run -p 7860:7860 --gpus all -e HF_TOKEN -v canopy:/home/canopy/.cache canopy --rig qwen3-8b
# By tag and not by digest, which has not been looked up yet: `docker buildx imagetools inspect python:3.11-slim` prints
# it, and FROM python:3.11-slim@sha256:… then pins the base.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    GRADIO_ANALYTICS_ENABLED=False HF_HUB_DISABLE_TELEMETRY=1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=10000 KMP_BLOCKTIME=1
RUN useradd --create-home canopy && install -d -o canopy /home/canopy/.cache /home/canopy/app
WORKDIR /home/canopy/app

# PyPI's torch for Linux brings its own CUDA libraries, so nothing else is needed for a GPU.
RUN pip install torch==2.13.0
# Everything else with the versions and hashes of the lock, which `make lock` renews.
COPY requirements.txt requirements.lock ./
RUN pip install --require-hashes --no-deps -r requirements.lock

COPY --chown=canopy assets assets
COPY --chown=canopy engine engine
COPY --chown=canopy explorer explorer
COPY --chown=canopy app.py README.md ./

USER canopy
# The published target, converted, beside its drafters: no start needs a network for it.
RUN mkdir -p assets/smollm2/target && CANOPY_CACHE=/tmp/canopy python -m engine fetch --rig smollm2 --into assets/smollm2/target && rm -rf /tmp/canopy
# Downloaded checkpoints and what the lab measured stay in this folder: mount a volume over it to keep them.
VOLUME /home/canopy/.cache
EXPOSE 7860
# The page answers before its rig is loaded, so nothing here waits for a download.
HEALTHCHECK --interval=30s --timeout=5s --start-period=2m \
    CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/', timeout=4)"
ENTRYPOINT ["python", "app.py", "--host", "0.0.0.0", "--port", "7860", \
            "--results", "/home/canopy/.cache/results.sqlite"]
CMD []
