"""The phrasings of the explain domain: question frames by the kind of answer they ask for.

The fields of a notion frame are ``name`` and ``topic`` (see ``explain_records.Notion``) with the verbs that
agree with the name (``be``, ``do``, ``works``) or with the topic (``topic_be``, ``topic_it``).
"""

from __future__ import annotations

SHORT_FRAMES: tuple[str, ...] = (
    "In one sentence, what {be} {name}?",
    "Explain {topic} briefly.",
    "Give me a one-sentence definition of {topic}.",
    "What {be} {name}, in short?",
    "Define {topic} in one sentence.",
    "Summarize {topic} in a sentence.",
    "Give me the meaning of {topic} in one sentence.",
    "Briefly, what {be} {name}?",
    "What {be} {name}? One sentence, please.",
)

PLAIN_FRAMES: tuple[str, ...] = (
    "What {be} {name}?",
    "Tell me about {topic}.",
    "I keep hearing about {topic}. What {topic_be} {topic_it}?",
    "Can you explain what {name} {be}?",
    "Could you tell me what {name} {be}?",
    "Please explain what {name} {be}.",
    "Explain {topic}.",
    "Please explain {topic}.",
    "I am new to this. What {be} {name}?",
    "What do people mean by {topic}?",
    "Explain {topic} to a beginner.",
    "I do not understand {topic}. Please help.",
    "What should I know about {topic}?",
    "Describe {topic}.",
    "What exactly {be} {name}?",
    "I read about {topic} in a paper. What {topic_be} {topic_it}?",
)

HOW_FRAMES: tuple[str, ...] = (
    "How {do} {name} work?",
    "Explain how {name} {works}.",
    "Can you explain how {name} {works}?",
    "Please describe how {name} {works}.",
    "Could you show me how {name} {works}?",
    "What is the mechanism behind {topic}?",
    "Tell me how {name} {works} in practice.",
    "Can you go deeper into {topic}?",
    "I know what {name} {be}. How {do} {name} work?",
    "Explain the details of {topic}.",
)

PAIR_FRAMES: tuple[str, ...] = (
    "What is the difference between {left} and {right}?",
    "{left} vs {right}: what is the difference?",
    "Explain the difference between {left} and {right}.",
    "Compare {left} and {right}.",
    "Compare {left} with {right}.",
    "Contrast {left} with {right}.",
    "What distinguishes {left} from {right}?",
    "What separates {left} from {right}?",
    "I mix up {left} and {right}. How can I keep them apart?",
    "Are {left} and {right} the same thing?",
    "How should I tell {left} from {right}?",
    "Please compare {left} and {right} for me.",
)

REASON_FRAMES: tuple[str, ...] = (
    "Why {question}",
    "Tell me, why {question}",
    "Explain why {clause}.",
    "Can you explain why {clause}?",
    "Why is it that {clause}?",
    "I wonder why {clause}.",
    "Do you know why {clause}?",
    "What is the reason that {clause}?",
    "Please tell me why {clause}.",
    "I read that {clause}. Why?",
    "They say that {clause}. Why is that so?",
    "How come {clause}?",
)

OPENERS: tuple[str, ...] = (
    "Hello. ",
    "Hi! ",
    "Hello Canopy. ",
    "Quick question: ",
    "One more question: ",
    "I have a question. ",
    "I am reading about decoding. ",
    "Now something else. ",
    "Sorry to ask, ",
)

CLOSERS: tuple[str, ...] = (" Thanks.", " Thank you!", " Thanks a lot.")

CHAT_ENDINGS: tuple[str, ...] = ("", ".", "!")
