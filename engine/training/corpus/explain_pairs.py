"""Two notions that are easily mixed up, and what keeps them apart (papers 000 to 003)."""

from __future__ import annotations

from engine.training.corpus.explain_records import Pair

PAIRS: tuple[Pair, ...] = (
    Pair(
        "the drafter",
        "the target",
        "The drafter is small and only guesses; the target is large and decides. The drafter sets how fast "
        "the text comes, because good guesses are accepted. The target alone sets what the text is.",
    ),
    Pair(
        "a draft chain",
        "a draft tree",
        "A draft chain has one guess per depth, so the first miss ends it. A draft tree has siblings, so a "
        "second guess can save the round. The tree accepts more tokens but has more rows to verify.",
    ),
    Pair(
        "autoregressive decoding",
        "speculative decoding",
        "Autoregressive decoding pays one target pass per token. Speculative decoding pays one target pass "
        "per round and may keep several tokens from it. Done losslessly, both follow the same target and "
        "give the same distribution of texts.",
    ),
    Pair(
        "routing",
        "merging",
        "Routing scores both trees and verifies only the more confident one. Merging verifies both trees "
        "under one shared root. Routing has fewer rows but can pick the wrong head; merging covers both "
        "heads at the price of more rows.",
    ),
    Pair(
        "merging",
        "a joint tree",
        "Merging keeps two disjoint subtrees, so a prefix that both heads propose is verified twice. A "
        "joint tree stores such a prefix once and spends one budget over both heads. It uses its rows "
        "better at an equal total.",
    ),
    Pair(
        "routing",
        "a joint tree",
        "Routing gives the whole budget to one head and drops the other tree. A joint tree shares the "
        "budget among the best prefixes of both heads. If the more confident head is wrong, the joint tree "
        "may still hold the right path.",
    ),
    Pair(
        "greedy decoding",
        "sampling",
        "Greedy decoding always takes the most probable token, so the text is fixed. Sampling draws a "
        "token at random by its probability, so the text varies with the seed. Guesses are easier to get "
        "right under greedy decoding.",
    ),
    Pair(
        "top-k sampling",
        "top-p sampling",
        "Top-k keeps a fixed number of tokens. Top-p keeps as many tokens as are needed to reach the "
        "probability p. So top-p adapts: few candidates when the model is sure, many when it is not.",
    ),
    Pair(
        "the root",
        "the bonus token",
        "They are the same token at different times. The bonus token is what the target chooses where the "
        "walk of one round stops. In the next round it stands at the top of the new tree and is called the "
        "root.",
    ),
    Pair(
        "tau",
        "the number of accepted draft tokens",
        "The symbol τ counts the root, and the number of accepted draft tokens does not. For each round "
        "they differ by exactly one: if 5 drafted tokens are accepted, the round counts 6 in τ.",
    ),
    Pair(
        "the node budget",
        "depth",
        "The node budget limits how many drafted nodes the tree has in all. Depth is how far a node lies "
        "below the root. The same budget can make a deep, narrow tree or a shallow, wide one.",
    ),
    Pair(
        "siblings",
        "descendants",
        "Siblings share a parent and are rival guesses for one position; only one can be accepted. "
        "Descendants continue a node at later positions, and they can be accepted only together with it.",
    ),
    Pair(
        "the tree attention mask",
        "the causal mask",
        "The causal mask lets a token see everything before it in the list. The tree attention mask lets a "
        "node see only the prefix, its ancestors and itself. For a single chain the two are the same.",
    ),
    Pair(
        "the tree attention mask",
        "the block-diagonal mask",
        "The tree attention mask is the general rule: see your ancestors and yourself. The block-diagonal "
        "mask is what this rule gives for a merged tree, with one block per head, zeros between them and a "
        "shared root column.",
    ),
    Pair(
        "depth positions",
        "list positions",
        "List positions number the rows of the packed tree one by one. Depth positions use prefix length "
        "plus depth, so siblings share a number. Only depth positions make each branch look like ordinary "
        "text to the target.",
    ),
    Pair(
        "the verify pass",
        "the acceptance walk",
        "The verify pass is one forward pass of the target over all nodes and takes nearly all the time. "
        "The acceptance walk comes after it and only compares tokens; it needs no model call.",
    ),
    Pair(
        "marginals",
        "conditional probabilities",
        "Marginals describe each position alone, given only the prefix. Conditional probabilities also "
        "know the drafted tokens before that position. Marginals come from one parallel pass, while "
        "conditionals are more exact but need more work for each path.",
    ),
    Pair(
        "DFlash",
        "DDTree",
        "Both use the same block diffusion drafter and one drafter pass. DFlash takes the top token at "
        "each position and verifies a chain. DDTree spends a node budget on the most probable prefixes and "
        "verifies a tree, so it accepts more tokens.",
    ),
    Pair(
        "block diffusion",
        "autoregressive drafting",
        "Block diffusion guesses all positions of a block in one pass, without knowing the tokens between. "
        "Autoregressive drafting makes one pass per depth, and each guess sees the path before it. The "
        "first is faster, the second is more consistent.",
    ),
    Pair(
        "best-first search",
        "a full tree of fixed width",
        "Best-first search puts nodes where the drafter is confident, so the tree is deep in some places "
        "and wide in others. A full tree has the same number of children everywhere and wastes many nodes "
        "on unlikely paths.",
    ),
    Pair(
        "the ratio rule",
        "the acceptance walk",
        "The ratio rule compares the target's and the drafter's probabilities and accepts with min(1, "
        "p/q). The walk follows the target's own choice and never needs q. The walk is exact for any tree; "
        "the ratio rule only if the children were sampled from q.",
    ),
    Pair(
        "sequential acceptance",
        "the acceptance walk",
        "Sequential acceptance tries the children one by one, removing and scaling after each rejection. "
        "The walk draws once and looks for a matching child. The results have the same law; only the "
        "record of trials differs.",
    ),
    Pair(
        "the prefix",
        "the draft tree",
        "The prefix is fixed text that the target has already accepted. The draft tree is a set of guesses "
        "for what comes next. After each round the accepted path moves from the tree to the prefix, and "
        "the rest is dropped.",
    ),
    Pair(
        "tau",
        "the speedup",
        "The symbol τ counts tokens per round, and the speedup compares tokens per second. A bigger tree "
        "raises τ but makes each round slower, so a higher τ can come with a lower speedup.",
    ),
    Pair(
        "the mu score",
        "tau",
        "The score μ is a guess before verification: how confident a head is in its own tree. The value τ "
        "is measured after verification: how many tokens were kept per round. A high μ does not promise a "
        "high τ.",
    ),
    Pair(
        "rejection",
        "trimming",
        "Rejection is the decision that a drafted token does not match the target. Trimming is the work "
        "that follows: the rows of rejected nodes are removed from the KV cache. One concerns the text, "
        "the other the memory.",
    ),
    Pair(
        "a specialist head",
        "a general head",
        "A specialist head is trained on one kind of text and guesses very well there. A general head is "
        "trained on many kinds and is fair everywhere. Two specialists together can cover what one general "
        "head does less well.",
    ),
    Pair(
        "temperature",
        "top-p sampling",
        "Temperature changes the shape of the whole distribution, sharper or flatter, and removes no token "
        "unless it is 0. Top-p sampling cuts off the rare tokens and leaves the ratios of the others as "
        "they were.",
    ),
    Pair(
        "keep-indices",
        "depth positions",
        "Keep-indices say which rows of the packed tree survive the round. Depth positions say where in "
        "the text each row stands. The first may have gaps, and along the accepted path the second rise by "
        "one at each step.",
    ),
    Pair(
        "lossless decoding",
        "lossy decoding",
        "Lossless decoding keeps exactly the target's text or distribution, whatever the drafter says. "
        "Lossy decoding accepts tokens that the target might not have chosen, which can be faster but "
        "changes the output.",
    ),
)
