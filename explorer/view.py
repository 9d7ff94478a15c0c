"""What is sent to the browser as JSON."""

from typing import Any

View = dict[str, Any]
