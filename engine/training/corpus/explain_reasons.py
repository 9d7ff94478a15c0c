"""Facts of tree speculative decoding with the reason for each (papers 000 to 003)."""

from __future__ import annotations

from engine.training.corpus.explain_records import Reason

REASONS: tuple[Reason, ...] = (
    Reason(
        "is there a best node budget?",
        "there is a best node budget",
        "The first nodes are the most probable, so each further node adds less to the acceptance length. "
        "The time of the verify pass keeps growing with the rows. At some budget the added time outweighs "
        "the added tokens, and the speedup falls.",
    ),
    Reason(
        "is speculative decoding faster?",
        "speculative decoding is faster",
        "One target pass over many tokens costs little more than a pass over one, because loading the "
        "weights dominates. If several drafted tokens are accepted, that one pass replaces several, and "
        "the cheap drafter costs little.",
    ),
    Reason(
        "does speculative decoding not change the text?",
        "speculative decoding does not change the text",
        "Every kept token is one that the target itself chose after the same prefix. The draft only "
        "decides how many of these choices can be read from one pass. A wrong guess is replaced by the "
        "target's own token.",
    ),
    Reason(
        "do siblings share a position?",
        "siblings share a position",
        "They are rival guesses for the same place in the text. Only one of them can be real, and it would "
        "stand at prefix length plus depth. With other positions the target would score a text that nobody "
        "would write.",
    ),
    Reason(
        "may a node not see its siblings?",
        "a node may not see its siblings",
        "A sibling belongs to a different possible text. If a node attended to it, its score would depend "
        "on a token that is not before it, and the result would differ from plain decoding. The tree mask "
        "blocks this.",
    ),
    Reason(
        "does tau count the root?",
        "tau counts the root",
        "The root is a token that the target chose, and the round commits it to the text. Counting it "
        "makes τ the true number of tokens per round. So plain decoding has τ = 1, and a round with no "
        "accepted draft counts 1.",
    ),
    Reason(
        "is the root not part of the node budget?",
        "the root is not part of the node budget",
        "The budget counts guesses, and the root is no guess: the target has already chosen it. It still "
        "needs one row in the verify pass, so a budget of B means B + 1 rows.",
    ),
    Reason(
        "must the KV cache be trimmed?",
        "the KV cache must be trimmed",
        "The verify pass writes rows for all nodes, also for rejected ones. If these stayed, later tokens "
        "would attend to words that are not in the text. Trimming keeps only the root and the accepted "
        "path.",
    ),
    Reason(
        "do the keep-indices have gaps?",
        "the keep-indices have gaps",
        "The accepted path is one branch of a tree that was flattened into a list. Between its nodes lie "
        "siblings and other branches that were rejected. So the rows to keep are often not a solid run.",
    ),
    Reason(
        "is a tree better than a chain?",
        "a tree is better than a chain",
        "A chain ends at the first wrong token. A tree holds other guesses beside it, so the walk can "
        "often go on along a sibling. For the price of more rows the mean number of accepted tokens rises.",
    ),
    Reason(
        "do both heads start from the same root?",
        "both heads start from the same root",
        "The root is the target's own last choice, so it is right for both. A shared root lets two trees "
        "be compared or merged, and after the round both heads continue from the same accepted tokens.",
    ),
    Reason(
        "does merging shift the indices of the second tree?",
        "merging shifts the indices of the second tree",
        "Both trees number their nodes from 0, so the numbers would collide in one list. The map φ moves "
        "the drafted nodes of the second tree behind those of the first and keeps the root at 0, so all "
        "parent pointers stay right.",
    ),
    Reason(
        "are the off-diagonal blocks zero?",
        "the off-diagonal blocks are zero",
        "They would let nodes of one head attend to nodes of the other. The two subtrees are separate "
        "texts that share only the prefix and the root. Zeros there make each branch scored as if it stood "
        "alone.",
    ),
    Reason(
        "can routing choose the wrong head?",
        "routing can choose the wrong head",
        "It compares how confident the heads are, not how right they are. A head can be sure of a path "
        "that the target does not take. The truth is known only after the verify pass, and by then one "
        "tree is gone.",
    ),
    Reason(
        "does a joint tree save rows?",
        "a joint tree saves rows",
        "Two heads often propose the same first tokens. A merged tree verifies such a prefix twice, once "
        "for each head. A joint tree stores it as one node, and the saved rows go to other prefixes.",
    ),
    Reason(
        "does best-first search always add a parent before its child?",
        "best-first search always adds a parent before its child",
        "The probability of a path is a product, and each further token multiplies it by at most 1. So a "
        "child is never more probable than its parent, and the parent leaves the queue first.",
    ),
    Reason(
        "does acceptance fall at high temperature?",
        "acceptance falls at high temperature",
        "At high temperature the target draws less likely tokens more often. The drafter cannot know the "
        "draw beforehand, so even its best guess matches less often. The text is still exact, but fewer "
        "tokens are kept per round.",
    ),
    Reason(
        "must equal prefixes share one draw?",
        "equal prefixes must share one draw",
        "Two nodes with the same path stand for the same text. If each had its own random draw, following "
        "whichever goes deeper would favor tokens that are in the tree. With one shared draw the output "
        "keeps the target's distribution.",
    ),
    Reason(
        "is the bonus token free?",
        "the bonus token is free",
        "The verify pass gives a distribution at every node, also at the last accepted one. The target's "
        "choice there is known without another pass. So each round adds one sure token, whatever happens "
        "to the draft.",
    ),
    Reason(
        "is block diffusion a fast way to draft?",
        "block diffusion is a fast way to draft",
        "It predicts all positions of a block in one parallel pass. A drafter that writes one token after "
        "the other needs a pass for each depth. The cost of drafting therefore hardly depends on the depth "
        "of the tree.",
    ),
    Reason(
        "is the ratio rule biased with top-k children?",
        "the ratio rule is biased with top-k children",
        "The rule is exact only for a token that was drawn from q. Top-k children are picked because they "
        "rank high, not by a draw, so accepting them with min(1, p/q) gives some tokens too much weight.",
    ),
    Reason(
        "does a wrong guess do no harm?",
        "a wrong guess does no harm",
        "The target checks each guess before it enters the text. A wrong one is dropped with all that "
        "follows it, and the target's own token takes its place. Only the time spent on that guess is "
        "lost.",
    ),
    Reason(
        "does a bigger tree not always help?",
        "a bigger tree does not always help",
        "Later nodes have small probabilities and are seldom accepted, yet each one is a row for the "
        "target to verify. When the verify pass slows down more than τ grows, the tokens per second go "
        "down.",
    ),
    Reason(
        "are log-probabilities added?",
        "log-probabilities are added",
        "The probability of a path is a product of many small numbers, which may become too small to store "
        "well. The sum of the logs carries the same order and is numerically safe. Taking exp at the end "
        "gives the probability back.",
    ),
    Reason(
        "is exactness tested in float32?",
        "exactness is tested in float32",
        "In low precision a batched pass and a one-token pass round differently, so a near-tie can tip to "
        "another token. In float32 such differences are far smaller, so a mismatch points to a real error "
        "in the method.",
    ),
)
