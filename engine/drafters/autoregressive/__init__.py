"""Any causal language model that shares the target's tokenizer, as a drafter that sees its path."""
