"""Code to add to other engines so that they record their rounds, and imports of other tools' records: see README.md."""
