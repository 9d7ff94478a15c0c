"""Notions of two draft heads, of Canopy itself and of what it measures (papers 000 to 002)."""

from __future__ import annotations

from engine.training.corpus.explain_records import Notion

HEAD_NOTIONS: tuple[Notion, ...] = (
    Notion(
        "a draft head",
        "draft heads",
        "A draft head is one drafter among several that serve the same target. Each head proposes its own "
        "tree from the same root, and all heads move forward on the same accepted tokens after each round.",
        "A head reads hidden states of the target for the committed tokens and turns them into guesses. "
        "After verification every head is given the states of the accepted path, also a head whose tree "
        "was not used, so that all stay in step.",
        topic_plural=True,
    ),
    Notion(
        "a specialist head",
        "specialist heads",
        "A specialist head is a draft head trained on one kind of text, such as math or code. It guesses "
        "well at home and poorly elsewhere, so it is best used together with a second head.",
        "Training on one domain makes the head's guesses match the target there, so long paths are "
        "accepted. On mixed text the best head changes from round to round. Routing picks one head per "
        "round, and merging verifies the guesses of both.",
        topic_plural=True,
    ),
    Notion(
        "routing",
        "routing",
        "Routing lets two draft heads each propose a tree and verifies only the tree that looks more "
        "confident. The choice is made again in every round by comparing the scores μ of the two trees.",
        "For each tree we take the mean over its drafted nodes of exp(log-probability of the path). The "
        "head with the larger mean wins, and its tree goes to the target. Both heads then advance on the "
        "same accepted tokens.",
    ),
    Notion(
        "the mu score",
        "the mu score",
        "The score μ of a head is the mean confidence of the drafted nodes in its tree. The router "
        "compares the two scores and verifies the tree with the larger one.",
        "For each drafted node we add the log-probabilities along its path and take the exponential. The "
        "mean of these values over all drafted nodes, without the root, is μ. It needs no target pass, so "
        "it is cheap, but a head can be confident and wrong.",
    ),
    Notion(
        "node confidence",
        "node confidence",
        "Node confidence is the drafter's estimate of the probability that the whole path down to a node "
        "is right. It is the product of the probabilities along the path, so it never grows with depth.",
        "Add the log-probabilities of the tokens from the root to the node, without the root itself, and "
        "take the exponential. Sums of logs are used because they are numerically safer than long "
        "products. The mean over the tree gives the routing score μ.",
    ),
    Notion(
        "merging",
        "merging",
        "Merging puts the trees of two draft heads under one shared root and verifies both in a single "
        "pass. Nothing is thrown away before the target has seen it, but more rows must be verified than "
        "with one tree.",
        "The nodes of the second tree are placed behind those of the first, and the map φ shifts their "
        "indices. The two subtrees do not see each other in the mask. One verify pass scores the union, "
        "and the best path of either head is accepted.",
    ),
    Notion(
        "the phi map",
        "the phi map",
        "The map φ gives the nodes of the second tree new indices when two trees are merged. The root "
        "stays 0, and every other node i becomes n1 + i, where n1 is the number of drafted nodes in the "
        "first tree.",
        "Tokens of the second tree are placed behind those of the first, and each parent pointer is sent "
        "through φ as well. Since φ(0) = 0, children of the root point to the shared root. With n1 = 3, "
        "the nodes 1, 2, 3 become 4, 5, 6.",
    ),
    Notion(
        "the block-diagonal mask",
        "block-diagonal masks",
        "The block-diagonal mask is the attention mask of a merged tree: one block for each head and zeros "
        "between the blocks. Nodes of one head never see nodes of the other, and the only column they "
        "share is the root.",
        "The first column is all ones, because every node sees the root. Then come the ancestor masks of "
        "the two subtrees along the diagonal. The blocks off the diagonal are zero, so each branch is "
        "scored as if the other head did not exist.",
        topic_plural=True,
    ),
    Notion(
        "a joint tree",
        "joint trees",
        "A joint tree is one draft tree built from two heads by a single best-first search. A prefix that "
        "both heads propose is only one node, so no row is verified twice and the budget is spent once.",
        "The search ranks the prefixes of both heads in one queue and adds the best one until the budget "
        "is spent. Each node remembers which heads proposed it. The better head gets more nodes by itself, "
        "without a choice made beforehand.",
        topic_plural=True,
    ),
    Notion(
        "a parent pointer",
        "parent pointers",
        "A parent pointer is the index of the node directly above a given node, and the list of all of "
        "them describes the whole tree. Depths, paths and the attention mask can be derived from this "
        "list.",
        "Nodes are numbered so that each parent has a smaller index than its children. To find a path, "
        "follow the pointers until index 0, the root. When two trees are merged, the pointers of the "
        "second tree are shifted by the map φ.",
        topic_plural=True,
    ),
    Notion(
        "the path matrix",
        "path matrices",
        "The path matrix lists all paths of the tree from the root to a leaf, one path per row. Shorter "
        "paths are filled up with -1, so that the acceptance of all paths can be computed at once.",
        "Each row starts with index 0 and holds the node indices on the way down to a leaf. The target's "
        "choices are compared with the tokens along each row. The row with the longest matching start "
        "gives the accepted path.",
        topic_plural=True,
    ),
    Notion(
        "an n-gram drafter",
        "n-gram drafters",
        "An n-gram drafter guesses the next tokens by looking up what followed the last few tokens before. "
        "It needs no neural network and is very fast, but it knows only patterns that it has already seen.",
        "A table counts which token came after each short run of tokens. The last tokens of the text are "
        "looked up, and the most frequent followers become the children. Repeating the lookup along each "
        "branch gives a tree of depth and width as wanted.",
        topic_plural=True,
    ),
    Notion(
        "Canopy",
        "Canopy",
        "Canopy is a visual explorer for tree speculative decoding that shows every round of it, step by "
        "step. One sees what the drafters guess, how the tree is built, what the target accepts and which "
        "rows stay in the KV cache.",
        "An engine runs the rounds and writes a record of each one. The page reads these records and draws "
        "the tree, the mask, the walk and the cache. A live run and a recorded trace look the same to the "
        "page.",
    ),
    Notion(
        "a trace",
        "traces",
        "A trace is a recorded run: a header with the method, the rig and the seed, and then one record "
        "per round. It can be replayed on the page without the models that made it.",
        "Each round stores the draft tree, the target's choices, the kept nodes and the time of each "
        "stage. The file is a list of JSON lines with a version. What a chart shows from it was measured "
        "in that run.",
        topic_plural=True,
    ),
    Notion(
        "entropy",
        "entropy",
        "Entropy says how unsure a distribution is: it is 0 when one token has all the probability and "
        "grows as the choice becomes more open. Where the target's entropy is high, guesses are often "
        "wrong.",
        "It is minus the sum of p times log p over all tokens. At a node with low entropy one child nearly "
        "always matches. At a node with high entropy several siblings are needed to have a fair chance, "
        "and paths tend to end there.",
    ),
    Notion(
        "the confidence gap",
        "confidence gaps",
        "The confidence gap is the distance between the target's best and second-best token at a node. A "
        "large gap means a clear choice, and a tiny gap is a near-tie that rounding can tip either way.",
        "The two largest log-probabilities are subtracted. When the gap is smaller than the rounding error "
        "of the number format, a batched pass and a one-token pass may choose differently. Therefore "
        "Canopy shows the gap at the first difference.",
        topic_plural=True,
    ),
    Notion(
        "the speedup",
        "speedups",
        "The speedup says how many times faster a method writes tokens than plain autoregressive decoding "
        "with the same target. It rises with the tokens kept per round and falls with the time that a "
        "round takes.",
        "Divide the tokens per round by the time per round and compare that with the time of one plain "
        "decoding step. A larger tree keeps more tokens but takes longer to verify, so the best speedup "
        "lies at a medium budget.",
        topic_plural=True,
    ),
)
