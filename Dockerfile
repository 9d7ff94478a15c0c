# Layers change rarely first: system, torch, the other packages, weights, code.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    GRADIO_ANALYTICS_ENABLED=False HF_HUB_DISABLE_TELEMETRY=1
RUN useradd --create-home canopy
WORKDIR /home/canopy/app

COPY requirements.txt .
RUN pip install torch==2.13.0
RUN pip install -r requirements.txt

COPY --chown=canopy assets assets
COPY --chown=canopy engine engine
COPY --chown=canopy explorer explorer
COPY --chown=canopy app.py README.md ./

USER canopy
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/', timeout=4)"
CMD ["python", "app.py", "--host", "0.0.0.0", "--port", "7860"]
