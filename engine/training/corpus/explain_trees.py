"""Notions of the tree: nodes, masks, positions, cache and tree building (papers 002 and 003)."""

from __future__ import annotations

from engine.training.corpus.explain_records import Notion

TREE_NOTIONS: tuple[Notion, ...] = (
    Notion(
        "a draft tree",
        "draft trees",
        "A draft tree is a set of guessed continuations that share their common beginnings, with the "
        "newest fixed token as the root. Each path from the root is one possible text, and the target "
        "checks all of them in one pass.",
        "The drafter gives probabilities for the coming positions, and a builder adds the most probable "
        "prefixes until the node budget is spent. A node is added only after its parent. The tree is then "
        "packed with its mask and sent to the target.",
        topic_plural=True,
    ),
    Notion(
        "the root",
        "the root",
        "The root is the first node of the draft tree and holds a token that the target has already "
        "chosen. It is always kept, so it counts toward τ, but it does not count toward the node budget.",
        "The root is the bonus token of the round before. It has index 0, its position is the end of the "
        "prefix, and all drafted nodes descend from it and attend to it. With two heads, both trees grow "
        "from this same root.",
    ),
    Notion(
        "a node",
        "nodes",
        "A node is one drafted token at one place in the tree, and it stands for the whole path from the "
        "root down to it. The same token may occur in many nodes, because its meaning depends on the path.",
        "Each node stores its token, the index of its parent and the log-probability of its path. Node 0 "
        "is the root, and a parent always comes before its children. The target gives each node its own "
        "row and its own next-token choice.",
        topic_plural=True,
    ),
    Notion(
        "siblings",
        "siblings",
        "Siblings are nodes with the same parent: different guesses for the same next token. At most one "
        "of them can be accepted, because the target chooses only one token at the parent.",
        "All siblings have the same depth and thus the same position, but they never attend to each other. "
        "When the target's choice equals one of them, the walk goes on there. The others are rejected with "
        "all their descendants.",
        name_plural=True,
        topic_plural=True,
    ),
    Notion(
        "depth",
        "depth",
        "Depth is the number of steps from the root to a node, and the root itself has depth 0. A node at "
        "depth 3 is a guess for the third token after the root.",
        "Depth sets the position of a node: prefix length plus depth. A deep tree can accept many tokens "
        "in one round, but deep guesses are less likely, since every token on the path must be right. The "
        "drafter's block size limits the depth.",
    ),
    Notion(
        "the node budget",
        "node budgets",
        "The node budget is the number of drafted nodes that a tree may have, not counting the root. A "
        "larger budget makes long acceptance more likely, but the target has more rows to verify.",
        "The builder stops when the budget B is spent, and the target then verifies B + 1 rows with the "
        "root. The first nodes are the most probable and help most, so each further node adds less while "
        "its cost remains.",
        topic_plural=True,
    ),
    Notion(
        "depth positions",
        "depth positions",
        "Depth positions give each node the position prefix length plus depth, instead of its place in the "
        "packed list. Siblings therefore share one position, just as if each branch were read alone.",
        "The root sits at the end of the prefix and each child is one further than its parent. The target "
        "uses these numbers for its positional encoding, so every path looks like an ordinary text and the "
        "scores equal those of plain decoding.",
        name_plural=True,
        topic_plural=True,
    ),
    Notion(
        "the tree attention mask",
        "tree attention masks",
        "The tree attention mask lets each node of the packed tree see the prefix, the root, its ancestors "
        "and itself, and nothing else. With it, many branches can be scored in one pass without disturbing "
        "each other.",
        "Row i of the mask has a 1 in column j exactly when j is an ancestor of i or i itself. The target "
        "applies it inside self-attention, so a node never reads siblings or other branches. The prefix in "
        "the KV cache is open to all nodes.",
        topic_plural=True,
    ),
    Notion(
        "the ancestor mask",
        "ancestor masks",
        "The ancestor mask is a square table that says for each pair of nodes whether the second lies on "
        "the path from the root to the first. It is the part of the tree attention mask that covers the "
        "tree itself.",
        "It is built from the parent pointers. A node copies the row of its parent and adds a 1 for "
        "itself. Since parents come first in the list, one sweep over the nodes is enough, and no 1 lies "
        "above the diagonal.",
        topic_plural=True,
    ),
    Notion(
        "a packed tree",
        "packed trees",
        "A packed tree is a draft tree written as one flat list of tokens, with positions and parents, "
        "ready for the target. The root comes first, and the attention mask is derived from the parents.",
        "Nodes are laid out so that every parent comes before its children. Each row gets its token and "
        "its depth position. If the shape must be fixed, padding rows are added at the end, and they see "
        "only themselves.",
        topic_plural=True,
    ),
    Notion(
        "keep-indices",
        "keep-indices",
        "Keep-indices are the row numbers of the verify pass that stay in the KV cache after a round: the "
        "root and the accepted nodes. They may have gaps, since the accepted path can jump over rejected "
        "branches.",
        "The acceptance walk lists the nodes it visits, for instance 0, 2, 5, 9. The keys and values of "
        "these rows are moved together behind the prefix, and all other rows of the round are dropped. The "
        "number of keep-indices is what the round adds to the text.",
        name_plural=True,
        topic_plural=True,
    ),
    Notion(
        "the KV cache",
        "the KV cache",
        "The KV cache stores the attention keys and values of all tokens read so far, so that they need "
        "not be computed again. Without it, each new token would cost a pass over the whole text.",
        "Each layer writes a key and a value for every token it reads. New tokens attend to these rows. In "
        "a tree round, rows of all nodes are written first, and afterwards only the rows of the accepted "
        "path may stay.",
    ),
    Notion(
        "KV cache trimming",
        "KV cache trimming",
        "KV cache trimming removes the rows of rejected nodes from the cache after each round. What "
        "remains is the prefix and the accepted path, just as if the target had read only these tokens.",
        "The keep-indices name the rows to retain. These rows are gathered to lie directly behind the "
        "prefix, in order, and the length is set to match. If they already lie in place, nothing moves. At "
        "most depth + 1 rows have to be moved.",
    ),
    Notion(
        "the acceptance length",
        "acceptance lengths",
        "The acceptance length is how far the target's own text runs along a path of the draft tree in one "
        "round. Papers differ on whether the root counts, so one should always say which count is meant.",
        "The walk counts one for each drafted node that matches the target's choice. If the walk visits 5 "
        "drafted nodes, 5 drafted tokens are accepted, and with the root the round counts 6. The mean of "
        "this second count is τ.",
        topic_plural=True,
    ),
    Notion(
        "tau",
        "tau",
        "The symbol τ is the mean number of tokens kept per round, with the root included. A round that "
        "accepts no drafted token counts 1, so τ is never below 1 for whole rounds, and plain decoding has "
        "τ = 1.",
        "Add up the length of the keep list over all rounds and divide by the number of rounds. If three "
        "rounds keep 4, 1 and 7 rows, τ is 12 / 3 = 4. The accepted drafted tokens per round are one less, "
        "here 3.",
    ),
    Notion(
        "best-first search",
        "best-first search",
        "Best-first search builds the draft tree by always adding the most probable prefix that is not yet "
        "in it. After B steps it holds exactly the B most probable prefixes under the drafter's marginals.",
        "A heap holds the open prefixes with their log-probabilities. The best one is taken out and added, "
        "and then its next sibling and its first child are pushed. A prefix is never less probable than "
        "its descendants, so parents always come first.",
    ),
    Notion(
        "marginals",
        "marginals",
        "Marginals are the drafter's separate distributions for each coming position, given the prefix but "
        "not the tokens chosen in between. One parallel pass gives all of them, which makes drafting very "
        "cheap.",
        "For each depth the drafter returns a probability for every token. The probability of a path is "
        "estimated as the product of the marginals of its tokens. This ignores how the tokens depend on "
        "each other, so some likely looking paths make no sense.",
        name_plural=True,
        topic_plural=True,
    ),
    Notion(
        "block diffusion",
        "block diffusion",
        "Block diffusion is a way of drafting in which all positions of a block are filled in together "
        "instead of one after the other. As a drafter it needs one parallel pass to give a distribution "
        "for each position.",
        "The first slot of the block holds the root token and the others hold mask tokens. One forward "
        "pass predicts all masked slots together. The result is one marginal per position, from which a "
        "chain or a whole tree can be built.",
    ),
    Notion(
        "DDTree",
        "DDTree",
        "DDTree builds a draft tree from one block diffusion pass by taking the B most probable prefixes. "
        "It is the best tree for the drafter's own estimate, and the target verifies it in one pass with "
        "tree attention.",
        "The expected acceptance length under the marginals is the sum of the prefix probabilities in the "
        "tree. To make this sum as large as possible, best-first search takes the top prefixes until the "
        "node budget is spent. One drafter pass is enough.",
    ),
    Notion(
        "DFlash",
        "DFlash",
        "DFlash is a speculative method whose drafter is a small block diffusion model that guesses a "
        "whole block in one pass. It drafts one chain, and DDTree uses the same drafter to build a tree.",
        "The drafter reads hidden features of the target for the committed tokens, with the root token and "
        "mask tokens as its block. Its top token at each position makes a chain. The target checks that "
        "chain in one pass and keeps the matching start.",
    ),
    Notion(
        "a prefix-closed tree",
        "prefix-closed trees",
        "A prefix-closed tree is one in which every node comes with all of its ancestors up to the root. "
        "Only such trees are valid, because a node can be accepted only if its parent was accepted first.",
        "A set of the most probable prefixes is prefix-closed by itself. A longer prefix is a product with "
        "more factors, none above 1, so it can never be more probable than its own beginning. The "
        "ancestors are thus already in the set.",
        topic_plural=True,
    ),
    Notion(
        "depth-first order",
        "depth-first order",
        "Depth-first order lists the nodes of a tree branch by branch: a node, then all of its first "
        "child's subtree, then the next child. It is one valid way to flatten a tree, as every parent "
        "comes before its children.",
        "Starting at the root, we write down a node and then go into each child in turn. A path is seldom "
        "a solid run in this list, so the accepted rows may have gaps, and the keep-indices are needed to "
        "trim the cache.",
    ),
)
