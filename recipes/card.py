"""Measures the demo rig and writes its model card: data, parameters, tokens seen, scores, hardware.

    python -m recipes.card

Also sets in rig.json how surprising a prompt has to be before the page says that it lies outside the training.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from engine.requests.prompts import read_prompts
from engine.serving.rigs import load_rig
from recipes.corpus.mixture import MAKERS, unseen_items
from recipes.evaluate import REWORDED
from recipes.training import read_facts

FAMILIAR = 0.995  # share of test prompts that the page treats as familiar


def familiar_nats(rig_name: str) -> float:
    """Return the mean surprise, in nats per token, that hardly any of 60 test prompts per domain exceeds."""
    live = load_rig(rig_name, "bfloat16")
    surprises = [live.mean_nll(live.prompt_ids(item.prompt))
                 for domain in MAKERS for item in unseen_items(domain, 60, "card")]
    return float(np.quantile(surprises, FAMILIAR))


def training_table(rig: Path) -> str:
    """Return the table of models, one row each."""
    rows = ["| model | parameters | tokens seen | domains (share of items) | minutes | last loss (nats) |",
            "|---|---|---|---|---|---|"]
    for name in ("target", "math", "code", "all", "all2", "small"):
        fact = read_facts(rig / name)
        shares = share_list(fact["shares"])
        if "finish_shares" in fact:
            shares += f"; at last {share_list(fact['finish_shares'])}"
        if fact["recipe"].get("answers") == "target":
            shares += f" ({fact['recipe']['finish_tokens'] / 1e6:.1f} M tokens, answers the target's own)"
        rows.append(f"| {name} | {fact['parameters'] / 1e6:.1f} M | {fact['tokens_seen'] / 1e6:.1f} M | {shares} | "
                    f"{fact['training_seconds'] / 60:.0f} | {fact['final_loss_nats']} |")
    return "\n".join(rows)


def share_list(shares: dict[str, float]) -> str:
    """List domains and their shares of the items."""
    return ", ".join(f"{domain} {share:.0%}" for domain, share in shares.items())


def score_table(scores: dict[str, Any]) -> str:
    """Return the table of scores, one row per measure, one column per domain."""
    domains = [name for name, value in scores.items() if isinstance(value, dict)]
    rows = ["| | " + " | ".join(domains) + " |", "|---" * (len(domains) + 1) + "|"]
    names = {name: None for domain in domains for name in scores[domain]}
    for name in names:
        rows.append(f"| {name} | " + " | ".join(str(scores[domain].get(name, "")) for domain in domains) + " |")
    return "\n".join(rows)


CARD = """# The demo rig

A target of eight layers, four block-diffusion drafters and a little language model as a drafter, small enough to be
carried in the repository. {good_at} It shows tree speculative decoding; its answers are not
reliable.

Everything is generated and trained here (`python -m recipes`); no test prompt is trained on.

- `target/`: Qwen3ForCausalLM, 8 layers × 320, byte-level BPE of 1,536 tokens, 1,024 positions, tied embedding.
- `math/`, `code/`, `all/`: drafters in the published DFlash layout, block 16, 3 layers, taps 1, 4, 6, without an
  embedding or an output head of their own. `math` and `code` are specialists, `all` saw every domain alike.
- `all2/`: a drafter in the layout of DFlash 2, with convolutions of 2 slots and a selector of 16 candidates.
- `small/`: Qwen3ForCausalLM, 2 layers, the target's tokenizer: a drafter that sees its own path, for `expand`.

## Training

{training}

Hardware: {hardware}. Optimisers: Muon for matrices, AdamW for the rest, bfloat16 autocast, torch {torch}.

## Scores

`python -m recipes.evaluate --json`: {prompts} unseen prompts a domain, greedy, {dtype}, node budget {budget}.
`right` is the share of exact final answers (math) or functions that run and pass their checks (code, mixed); the other
rows are τ, tokens committed per round, the root included; `routed_to_first` is the share of rounds in which routing
picked the math drafter; `tokens` is the mean length of an answer.

{scores}

### Worded by people

`python -m recipes.evaluate --reworded --domains math code explain --json`: the {worded} prompts of
`assets/prompts/reworded.jsonl`, worded by hand: what the rig gets right on its own templates it gets wrong on these.

{reworded}

## Limits

Numbers beyond those of the corpus (results above 400, decimals, negative numbers) and topics outside the four domains
give fluent nonsense. The page says so when a prompt surprises the target more than 99.5 % of the test prompts do.
"""


def evaluated(*words: str) -> str:
    """Return the result of an evaluation in a process of its own."""
    return subprocess.run([sys.executable, "-m", "recipes.evaluate", "--json", *words],
                          stdout=subprocess.PIPE, text=True, check=True).stdout


def last_line(output: str) -> dict[str, Any]:
    """Return the JSON object that it ends with."""
    record: dict[str, Any] = json.loads(output.strip().split("\n")[-1])
    return record


def main() -> None:
    """Evaluate in a process of its own, then write rig.json and README.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", default="demo")
    parser.add_argument("--scores", type=Path, help="the output of recipes.evaluate, if it was run already")
    args = parser.parse_args()
    folder = Path("assets") / args.rig
    card = json.loads((folder / "rig.json").read_text(encoding="utf8"))
    card["familiar_nats"] = round(familiar_nats(args.rig), 3)
    (folder / "rig.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf8")
    output = args.scores.read_text(encoding="utf8") if args.scores else evaluated("--domains", *MAKERS)
    scores = last_line(output)
    reworded = last_line(evaluated("--reworded", "--domains", "math", "code", "explain"))
    target = read_facts(folder / "target")
    (folder / "README.md").write_text(CARD.format(
        good_at=card["good_at"], training=training_table(folder),
        scores=score_table(scores), reworded=score_table(reworded), worded=len(read_prompts(REWORDED)),
        hardware=load_rig(args.rig, "bfloat16").hardware, torch=target["torch"],
        **{name: scores[name] for name in ("prompts", "dtype", "budget")}), encoding="utf8")


if __name__ == "__main__":
    main()
