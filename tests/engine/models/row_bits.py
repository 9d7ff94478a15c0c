"""Compare the rows of an int4 rig's products with the same rows computed alone, and its compiled layers with torch's,
in a process held to some kernels.

    python -m tests.engine.models.row_bits BLOCK_ROWS COUNT...

prints a line for each product and number of threads: how many values of so many rows were compared, and how many
differed. BLOCK_ROWS 0 takes this processor's own.
"""

import sys
from collections.abc import Callable, Sequence

import torch
from pytest import MonkeyPatch
from torch import Tensor, nn

from engine.models.packed_linear import GROUP, HIGHEST, Levels, PackedHead, PackedInt4, PackedLinear
from tests.engine.models.test_compiled import CONFIGS, int4_pass, outputs_of

HEADS = ((49_152, 576), (1536, 320))  # of smollm2 and demo: outputs, inputs
LAYERS = ((960, 576), (576, 576), (3072, 576), (576, 1536), (640, 320), (320, 384), (2048, 320), (320, 1024))
THREADS = (1, 2, 3, 4)
Product = Callable[[Tensor], Tensor]


def random_weight(outputs: int, inputs: int) -> Tensor:
    return torch.randn(outputs, inputs).bfloat16()


def int4_product(outputs: int, inputs: int) -> PackedInt4:
    numbers = torch.randint(0, HIGHEST + 1, (outputs, inputs // GROUP, GROUP)).float()
    return PackedInt4(Levels(numbers, torch.rand(outputs, inputs // GROUP, 2).bfloat16()))


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


def compare(name: str, product: Product, inputs: int, counts: Sequence[int]) -> None:
    """Compare, for these numbers of rows, the last rows of an input with what each of them gives alone."""
    states = torch.randn(max(counts), inputs).bfloat16()
    for threads in THREADS:
        torch.set_num_threads(threads)
        alone = torch.cat([product(row) for row in states.split(1)])
        results = [(product(states[-rows:]), alone[-rows:]) for rows in counts]
        compared = sum(expected.numel() for _, expected in results)
        differed = sum(int((result != expected).sum()) for result, expected in results)
        print(name, inputs, f"threads={threads}", f"compared={compared}", f"differed={differed}", flush=True)


def compare_layers() -> None:
    """Compare a pass's output and cache by compiled layers with those by torch."""
    for threads in THREADS:
        torch.set_num_threads(threads)
        for name, config in CONFIGS.items():
            fused = int4_pass(config)
            compiled = outputs_of(fused)
            with MonkeyPatch.context() as patch:
                patch.setattr("engine.models.passes.MAX_COMPILED_ROWS", 0)
                pairs = list(zip(compiled, outputs_of(fused), strict=True))
            differed = sum(int((result != expected).sum()) for result, expected in pairs)
            print(f"layers of {name}", f"threads={threads}", f"compared={sum(one.numel() for one in compiled)}",
                  f"differed={differed}", flush=True)


@torch.inference_mode()
def main(block_rows: int, counts: Sequence[int]) -> None:
    """Compare the products of both rigs for these numbers of rows, and layers of each kind."""
    compare_layers()
    torch.manual_seed(0)
    for outputs, inputs in LAYERS:
        compare(f"int4 {outputs}", int4_product(outputs, inputs), inputs, counts)
        compare(f"finer {outputs}", finer_product(outputs, inputs, block_rows), inputs, counts)
    for outputs, inputs in HEADS:
        compare(f"head {outputs}", head_product(outputs, inputs, block_rows), inputs, counts)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(word) for word in sys.argv[2:]])
