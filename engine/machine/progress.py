"""Reporting the progress of something that takes long, such as a download. Torch-free."""

from collections.abc import Callable

ReportProgress = Callable[[str, float | None], None]  # (the current step, the share of it that is done, if known)


def ignore_progress(message: str, share: float | None = None) -> None:
    """Report no progress."""
