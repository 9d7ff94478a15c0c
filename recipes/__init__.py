"""Recipes and generators of the shipped rigs."""

from __future__ import annotations

from engine.machine.threads import configure_openmp

configure_openmp()  # before any file of this folder imports torch
