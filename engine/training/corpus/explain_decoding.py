"""Notions of decoding itself: models, rounds, acceptance and sampling (papers 001 to 003)."""

from __future__ import annotations

from engine.training.corpus.explain_records import Notion

DECODING_NOTIONS: tuple[Notion, ...] = (
    Notion(
        "autoregressive decoding",
        "autoregressive decoding",
        "Autoregressive decoding writes a text one token at a time, and each new token costs one full pass "
        "of the model. It is the plain baseline: every faster method is measured against its tokens per "
        "second and must give the same text.",
        "The model reads the prefix, gives a distribution over the next token, and one token is chosen and "
        "appended. Then it all repeats. Each pass must wait for the one before, and most of its time goes "
        "into moving weights, not into arithmetic.",
    ),
    Notion(
        "speculative decoding",
        "speculative decoding",
        "Speculative decoding lets a cheap drafter guess several tokens ahead and lets the large target "
        "check all guesses in one pass. Right guesses are kept, so one target pass can yield many tokens, "
        "and the output still follows the target alone.",
        "First the drafter proposes tokens after the current prefix. Then the target scores all of them in "
        "one forward pass. We keep the guesses that agree with the target's own choices, add one token "
        "that the target chose itself, and start the next round.",
    ),
    Notion(
        "tree speculative decoding",
        "tree speculative decoding",
        "Tree speculative decoding drafts a whole tree of possible continuations instead of one line, and "
        "the target checks every branch in a single pass. If the first guess is wrong, a sibling may still "
        "be right, so more tokens are accepted per round.",
        "The drafter offers several tokens for each depth, and a builder picks the most probable prefixes "
        "up to a node budget. The tree is packed into one sequence with a tree attention mask, the target "
        "scores it once, and a walk from the root finds the accepted path.",
    ),
    Notion(
        "the target",
        "the target",
        "The target is the large model whose text we want, and its choices alone decide which drafted "
        "tokens are accepted. It is also called the verifier, because in each round it checks the draft "
        "tree in one forward pass.",
        "In each round the target reads the packed tree and gives a next-token distribution at every node. "
        "Its choice at a node either matches a child, which is then accepted, or becomes the bonus token "
        "that ends the round.",
    ),
    Notion(
        "the drafter",
        "drafters",
        "The drafter is a small and fast model that guesses the next tokens so that the target can check "
        "them all at once. A bad guess costs only speed and never changes the text, because the target has "
        "the last word.",
        "The drafter reads features of the committed tokens and gives probabilities for the coming "
        "positions. A tree is built from these probabilities. After each round it is given the newly "
        "accepted tokens, so its context holds nothing that was rejected.",
        topic_plural=True,
    ),
    Notion(
        "a draft chain",
        "draft chains",
        "A draft chain is a single line of guessed tokens, a tree in which each node has at most one "
        "child. It is simple and cheap, but one wrong token throws away everything that comes after it.",
        "The drafter's top token is taken at each depth, and the target checks the line in one pass. "
        "Acceptance stops at the first mismatch, and the target's own token is used there. With no "
        "siblings, a chain has no second try at any depth.",
        topic_plural=True,
    ),
    Notion(
        "a token",
        "tokens",
        "A token is the small piece of text that a language model reads and writes, such as a word, part "
        "of a word or a sign. Models choose one token at a time from a fixed vocabulary, and speed is "
        "counted in tokens per second.",
        "A tokenizer cuts the text into pieces and gives each piece a number. The model turns these "
        "numbers into vectors and returns a probability for every entry of its vocabulary. The chosen "
        "number is turned back into text.",
        topic_plural=True,
    ),
    Notion(
        "the prefix",
        "the prefix",
        "The prefix is all the text that is already fixed: the prompt together with every token committed "
        "so far. Every draft tree grows from the end of the prefix, and each node of the tree attends to "
        "all of it.",
        "The keys and values of the prefix lie in the KV cache, so they are not computed again. After each "
        "round the accepted path is appended, and the prefix grows by as many tokens as the round kept.",
    ),
    Notion(
        "a round",
        "rounds",
        "A round is one cycle of drafting, verifying and committing, and it costs one drafter pass and one "
        "verify pass. It commits the root and all accepted drafted tokens, and its bonus token becomes the "
        "root of the next round.",
        "The steps are always the same: the drafters guess, a tree is built, the target verifies it in one "
        "pass, a walk accepts a path, and the cache keeps only the rows of that path. The bonus token then "
        "starts the next round.",
        topic_plural=True,
    ),
    Notion(
        "the verify pass",
        "verify passes",
        "The verify pass is the single forward pass in which the target scores every node of the draft "
        "tree at once. Its cost grows with the number of rows, and a tree with a budget of B drafted nodes "
        "has B + 1 rows with the root.",
        "The tree is flattened into a list of tokens with depth positions and a tree attention mask. The "
        "target reads it on top of the KV cache and returns one distribution per node. No further target "
        "call is needed in that round.",
        topic_plural=True,
    ),
    Notion(
        "the acceptance walk",
        "the acceptance walk",
        "The acceptance walk goes down the verified tree from the root and follows the target's own choice "
        "at each node. It stops when no child carries the chosen token, and that token becomes the bonus "
        "token.",
        "At the current node we take the token that the target chose there, by argmax or by a draw. If a "
        "child has this token, the child is accepted and the walk moves to it. If not, the walk ends. No "
        "model call is needed.",
    ),
    Notion(
        "the bonus token",
        "bonus tokens",
        "The bonus token is the token that the target itself chooses at the node where the acceptance walk "
        "stops. It is always correct, so even a round with no accepted draft moves the text forward, and "
        "it becomes the root of the next tree.",
        "The verify pass already gives a distribution at the last accepted node. When no child matches the "
        "choice made there, that choice is kept as the bonus token. Its row enters the KV cache one round "
        "later, when it is verified as the root.",
        topic_plural=True,
    ),
    Notion(
        "lossless decoding",
        "lossless decoding",
        "Lossless decoding means that the faster method gives exactly what the target alone would have "
        "given. At temperature 0 this is the same text, and at higher temperatures it is the same "
        "distribution over texts.",
        "Losslessness holds because every kept token is one that the target chose. The draft only decides "
        "how many choices can be read from one pass. In low precision, near-ties can make a batched pass "
        "and a one-token pass differ, so exactness is tested in float32.",
    ),
    Notion(
        "greedy decoding",
        "greedy decoding",
        "Greedy decoding always takes the token with the highest probability, so the same prompt always "
        "gives the same text. It is what temperature 0 means, and it makes checking a draft simple: a "
        "guess is right or it is wrong.",
        "At each node the target's choice is the argmax of its distribution. A drafted child is accepted "
        "exactly when it equals that argmax. The accepted path is therefore the longest path in the tree "
        "that agrees with the greedy text.",
    ),
    Notion(
        "temperature",
        "temperature",
        "Temperature is a number that makes the target's choice sharper or flatter before a token is "
        "drawn. At 0 the top token always wins, at 1 the model's own probabilities are used, and above 1 "
        "rare tokens become more likely.",
        "The logits are divided by the temperature before the softmax. A low value widens the gaps, so the "
        "top token dominates, and a high value narrows them. Acceptance usually falls as temperature "
        "rises, because the target's draws become harder to guess.",
    ),
    Notion(
        "top-p sampling",
        "top-p sampling",
        "Top-p sampling draws only from the smallest set of top tokens whose probabilities add up to at "
        "least p. Rare tokens are cut off, and the set is small when the model is sure and large when it "
        "is not.",
        "The tokens are sorted by probability, and we keep them from the top until their sum reaches p. "
        "The rest get probability 0, and the kept ones are scaled to sum to 1. In a draft tree this is "
        "done to the target's distribution at each node.",
    ),
    Notion(
        "top-k sampling",
        "top-k sampling",
        "Top-k sampling draws only from the k most probable tokens and drops all others. The number of "
        "candidates is fixed, while the shape of the distribution decides how often each of them is drawn.",
        "The k largest probabilities are kept, scaled to sum to 1, and one token is drawn from them. With "
        "k = 1 it is greedy decoding. For lossless drafting, the same cut must be applied to the target at "
        "every node of the tree.",
    ),
    Notion(
        "sampling",
        "sampling",
        "Sampling means that the next token is drawn at random from the target's distribution instead of "
        "always taking the top one. It makes the text varied, and a seed makes a run repeatable.",
        "The target's distribution is first shaped by temperature, top-k and top-p, and then one token is "
        "drawn at each node. The walk follows these draws down the tree. Equal prefixes must share one "
        "draw, or else the result would be biased.",
    ),
    Notion(
        "rejection",
        "rejection",
        "Rejection is what happens to a drafted token that the target did not choose: it is dropped "
        "together with everything below it. It costs nothing but speed, because the target's own token is "
        "used in its place.",
        "When the walk stops, every node off the accepted path is rejected. The rows of these nodes are "
        "removed from the KV cache, so that later tokens never attend to them, and the next round starts "
        "from the bonus token.",
    ),
    Notion(
        "the residual distribution",
        "residual distributions",
        "The residual distribution is what is left of the target's probability after a drafted token was "
        "rejected, scaled to sum to 1. The replacement token is drawn from it, which keeps the output "
        "exact when the draft was sampled.",
        "With target probabilities p and draft probabilities q, we take max(0, p - q) for each token and "
        "divide by the sum. Tokens that the draft proposed too often get nothing, and tokens that it "
        "proposed too rarely make up the difference.",
        topic_plural=True,
    ),
    Notion(
        "the ratio rule",
        "the ratio rule",
        "The ratio rule accepts a drafted token with probability min(1, p/q), where p is the target's and "
        "q the drafter's probability. It is exact only if the drafted token was sampled from q, and it is "
        "biased with top-k children.",
        "A random number is compared with p/q. If the token is accepted, we move on to the next depth. If "
        "it is rejected, the replacement is drawn from the residual distribution. Canopy offers this rule "
        "for study and labels it as biased.",
    ),
    Notion(
        "sequential acceptance",
        "sequential acceptance",
        "Sequential acceptance tries the children of a node one after the other until one is accepted or "
        "all are rejected. It has the same law as the walk that follows the target's choice, and it also "
        "records each trial.",
        "A child is accepted with the probability that the target gives it. After a rejection that token "
        "is removed and the remaining probabilities are scaled to sum to 1. If every child fails, the "
        "bonus token is drawn from what is left.",
    ),
    Notion(
        "a stop token",
        "stop tokens",
        "A stop token is a token that ends the text as soon as it is accepted, wherever it lies on the "
        "accepted path. Nothing after it may reach the text, the count of tokens or the cache.",
        "After each round the accepted path is searched for a stop token. If there is one, the path is cut "
        "right there and decoding ends, even when the target had agreed with later nodes. The limit on the "
        "number of tokens works in the same way.",
        topic_plural=True,
    ),
)
