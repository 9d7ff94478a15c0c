"""Compare the rows of an int4 rig's products with the same rows computed alone, and its compiled layers with torch's,
on every kind of kernel.

    python -m tests.engine.models.row_bits THREADS COUNT...

prints a line for each kind of kernel, product and number of threads: how many values of these rows were compared, and
how many differed. THREADS is the number of thread counts that each product runs with.
"""

import os
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256

import torch
from pytest import MonkeyPatch
from torch import Tensor, nn

from engine.models.level_product import CompiledProduct
from engine.models.packed_linear import GROUP, MAX_LEVEL, Levels, PackedHead, PackedInt4, PackedLinear

# The instruction sets that oneDNN and torch may use, and the rows of a block on such a processor.
FAMILIES = {
    "AVX2": ("AVX2", "avx2", 1),
    "AVX-512": ("AVX512_CORE", "avx512", 4),
    "AVX-512 with VNNI": ("AVX512_CORE_VNNI", "avx512", 4),
    "AVX-512 with bfloat16": ("AVX512_CORE_BF16", "avx512", 8),
    "this processor's": ("DEFAULT", "", 0),  # with its own number of rows
}
HEADS = ((49_152, 576), (1536, 320))  # outputs and inputs, of smollm2 and demo
FEWER_OUTPUTS = 4096  # a head's outputs if each product runs with one number of threads, which takes seconds
LAYERS = ((960, 576), (576, 576), (3072, 576), (576, 1536), (640, 320), (320, 384), (2048, 320), (320, 1024))
THREADS = (1, 2, 3, 4)
Product = Callable[[Tensor], Tensor]


def random_weight(outputs: int, inputs: int) -> Tensor:
    return torch.randn(outputs, inputs).bfloat16()


def random_levels(outputs: int, inputs: int) -> Levels:
    numbers = torch.randint(0, MAX_LEVEL + 1, (outputs, inputs // GROUP, GROUP)).float()
    return Levels(numbers, torch.randn(outputs, inputs // GROUP, 2).bfloat16())


def random_levels_of_8(outputs: int, inputs: int) -> Levels:
    numbers = torch.randint(1, 256, (outputs, inputs // GROUP, GROUP), dtype=torch.uint8)
    return Levels(numbers, torch.rand(outputs, inputs // GROUP, 1), 8)


def digest() -> str:
    """Return a digest of compiled products of random weights and inputs."""
    torch.manual_seed(0)
    levels = [*(random_levels(*shape) for shape in LAYERS), random_levels_of_8(*HEADS[1])]
    products = [CompiledProduct(one)(torch.randn(7, one.numbers[0].numel()).bfloat16()) for one in levels]
    return sha256(b"".join(product.view(torch.int16).numpy().tobytes() for product in products)).hexdigest()


def finer_product(outputs: int, inputs: int, block_rows: int) -> PackedLinear:
    product = PackedLinear(random_weight(outputs, inputs))
    product.make_batch_invariant(block_rows)
    return product


def head_product(outputs: int, inputs: int, block_rows: int) -> PackedHead:
    head = nn.Linear(inputs, outputs, bias=False)
    head.weight.data = random_weight(outputs, inputs)
    product = PackedHead(head)
    product.make_batch_invariant(block_rows)
    return product


def compare(name: str, product: Product, inputs: int, counts: Sequence[int], thread_counts: Sequence[int]) -> None:
    """Compare the last rows of an input, for these numbers of rows, with the same rows computed alone."""
    states = torch.randn(max(counts), inputs).bfloat16()
    for threads in thread_counts:
        torch.set_num_threads(threads)
        alone = torch.cat([product(row) for row in states.split(1)])
        results = [(product(states[-rows:]), alone[-rows:]) for rows in counts]
        compared = sum(expected.numel() for _, expected in results)
        differed = sum(int((result != expected).sum()) for result, expected in results)
        print(name, inputs, f"threads={threads}", f"compared={compared}", f"differed={differed}", flush=True)


def compare_layers(family: str, each: int) -> None:
    """Compare a pass's output and cache between compiled layers and torch."""
    from tests.engine.models.test_compiled import CONFIGS, int4_pass, outputs_of  # computes at import

    for number, (name, config) in enumerate(CONFIGS.items()):
        fused = int4_pass(config)
        for threads in threads_of(number, each):
            torch.set_num_threads(threads)
            compiled = outputs_of(fused)
            with MonkeyPatch.context() as patch:
                patch.setattr("engine.models.passes.MAX_COMPILED_ROWS", 0)
                pairs = list(zip(compiled, outputs_of(fused), strict=True))
            differed = sum(int((result != expected).sum()) for result, expected in pairs)
            print(f"{family}: layers of {name}", f"threads={threads}",
                  f"compared={sum(one.numel() for one in compiled)}", f"differed={differed}", flush=True)


def threads_of(number: int, each: int) -> Sequence[int]:
    """Return ``each`` numbers of threads; the next product gets others."""
    stride = len(THREADS) // each
    return THREADS[number % stride::stride]


@torch.inference_mode()
def compare_family(family: str, each: int, counts: Sequence[int]) -> None:
    """Compare both rigs' products for these numbers of rows, and each kind of layer, with a family's kernels."""
    onednn, capability, block_rows = FAMILIES[family]
    os.environ["ONEDNN_MAX_CPU_ISA"] = onednn
    if capability:
        os.environ["ATEN_CPU_CAPABILITY"] = capability
        assert torch.backends.cpu.get_cpu_capability().lower() == capability
    compare_layers(family, each)
    torch.manual_seed(0)
    for number, (outputs, inputs) in enumerate(LAYERS):
        threads = threads_of(number, each)
        for kind in (PackedInt4, CompiledProduct):
            product = kind(random_levels(outputs, inputs))
            compare(f"{family}: {kind.__name__} {outputs}", product, inputs, counts, threads)
        compare(f"{family}: finer {outputs}", finer_product(outputs, inputs, block_rows), inputs, counts, threads)
    for number, (all_outputs, inputs) in enumerate(HEADS):
        outputs = min(all_outputs, FEWER_OUTPUTS) if each == 1 else all_outputs
        heads: dict[str, Product] = {"bfloat16": head_product(outputs, inputs, block_rows),
                                     "8-bit": CompiledProduct(random_levels_of_8(outputs, inputs))}
        for name, head in heads.items():
            compare(f"{family}: {name} head {outputs}", head, inputs, counts, threads_of(number, each))


def main(each: int, *counts: int) -> None:
    # A process reads these variables at its first computation, so the parent may import for all families.
    import engine.models.passes  # noqa: F401

    for family in FAMILIES:
        process = os.fork()
        if not process:
            compare_family(family, each, counts)
            os._exit(0)
        if os.waitpid(process, 0)[1]:
            sys.exit(f"{family} could not be compared.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
