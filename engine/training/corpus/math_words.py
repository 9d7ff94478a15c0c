"""Names, things and places that fill the word problems."""

from __future__ import annotations

_SHE: tuple[str, ...] = (
    "Ada", "Alice", "Amara", "Anna", "Beatriz", "Carla", "Chloe", "Clara", "Diana", "Elena", "Ella",
    "Emma", "Farah", "Fiona", "Grace", "Hana", "Ines", "Iris", "Jana", "Julia", "Kira", "Laila", "Lena",
    "Lucy", "Maria", "Maya", "Mina", "Nadia", "Nina", "Nora", "Olga", "Priya", "Rosa", "Ruth", "Sara",
    "Sofia", "Tara", "Vera", "Yuki", "Zoe",
)
_HE: tuple[str, ...] = (
    "Adam", "Ahmed", "Alex", "Andre", "Anton", "Ben", "Bruno", "Carlos", "Daniel", "David", "Diego",
    "Emil", "Felix", "Finn", "George", "Hugo", "Ivan", "Jack", "James", "Jonas", "Karim", "Kenji", "Leo",
    "Liam", "Luis", "Marco", "Mateo", "Max", "Noah", "Oliver", "Omar", "Oscar", "Paul", "Peter", "Ravi",
    "Sam", "Simon", "Theo", "Tom", "Victor",
)

NAMES: tuple[tuple[str, str], ...] = (
    *((name, "she") for name in _SHE),
    *((name, "he") for name in _HE),
)

PRONOUNS: dict[str, dict[str, str]] = {
    "she": {"he": "she", "his": "her", "him": "her", "He": "She", "His": "Her"},
    "he": {"he": "he", "his": "his", "him": "him", "He": "He", "His": "His"},
}

# Singular forms; those that do not simply take an "s" stand in IRREGULAR.
THINGS: dict[str, tuple[str, ...]] = {
    "fruit": (
        "apple", "pear", "peach", "plum", "orange", "lemon", "mango", "banana", "apricot", "fig", "lime",
        "kiwi", "melon", "cherry", "strawberry", "tomato", "grape", "pineapple", "date", "walnut",
    ),
    "stationery": (
        "pencil", "pen", "marker", "eraser", "notebook", "ruler", "crayon", "folder", "envelope",
        "brush", "sticker", "paper clip", "stamp", "postcard",
    ),
    "toys": (
        "marble", "toy car", "puzzle", "kite", "doll", "ball", "yo-yo", "robot", "teddy bear", "balloon",
        "building block", "board game",
    ),
    "clothes": (
        "shirt", "scarf", "hat", "sweater", "belt", "jacket", "skirt", "dress", "tie", "cap", "glove",
        "coat",
    ),
    "bakery": (
        "muffin", "cookie", "bun", "cupcake", "bagel", "pie", "croissant", "pancake", "waffle", "tart",
        "roll", "brownie", "donut", "pretzel",
    ),
    "plants": (
        "tulip", "rose", "daisy", "lily", "sunflower", "bean plant", "pepper plant", "violet", "orchid",
        "fern", "cactus plant", "daffodil",
    ),
    "cards": (
        "coin", "stamp", "shell", "button", "bead", "badge", "trading card", "postcard", "comic book",
        "pebble", "sticker", "marble", "key ring", "feather",
    ),
    "books": (
        "book", "novel", "magazine", "comic book", "atlas", "dictionary", "cookbook", "picture book",
    ),
    "animals": (
        "chicken", "goat", "duck", "rabbit", "pigeon", "sheep", "pony", "turkey", "cow", "horse",
    ),
    "goods": (
        "lamp", "candle", "cup", "plate", "bowl", "clock", "chair", "mirror", "vase", "basket", "towel",
        "pillow", "spoon", "bottle", "brick", "battery",
    ),
}

IRREGULAR: dict[str, str] = {
    "peach": "peaches", "cherry": "cherries", "strawberry": "strawberries", "tomato": "tomatoes",
    "mango": "mangoes", "brush": "brushes", "scarf": "scarves", "dress": "dresses", "daisy": "daisies",
    "lily": "lilies", "atlas": "atlases", "dictionary": "dictionaries", "sheep": "sheep", "pony": "ponies",
    "battery": "batteries",
}

CONTAINERS: tuple[str, ...] = (
    "boxes", "bags", "baskets", "crates", "jars", "trays", "packs", "drawers", "tins", "buckets",
)
SHOPS: tuple[str, ...] = (
    "market", "corner shop", "department store", "village shop", "fair", "flea market", "mall",
    "museum shop", "street market", "town store",
)
TOWNS: tuple[str, ...] = (
    "Ashford", "Brookdale", "Clayton", "Dunmore", "Eastbay", "Fairview", "Greenhill", "Hartwell",
    "Lakeside", "Millbrook", "Northport", "Oakridge", "Pinewood", "Riverton", "Stonegate", "Westfield",
)
DAYS: tuple[str, ...] = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
)
FIRST: tuple[str, ...] = (
    "First,", "To start,", "To begin with,",
)
THEN: tuple[str, ...] = (
    "Then", "Next,", "After that,",
)
SO: tuple[str, ...] = (
    "So", "Therefore", "This means that", "In the end,",
)


def plural(singular: str) -> str:
    """The plural of a thing of the tables."""
    return IRREGULAR.get(singular, singular + "s")


def with_article(singular: str) -> str:
    """The thing with its indefinite article: "an apple", "a pear"."""
    return ("an " if singular[0] in "aeiou" else "a ") + singular
