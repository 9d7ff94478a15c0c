"""Code to add to another engine so that it records its rounds, and imports of other tools' records: see README.md."""
