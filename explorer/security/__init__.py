"""Who may ask the page's server for what: one gate in front of every route. Who is kept from what: ``SECURITY.md``."""
