"""What a person asks for, as it is written: rigs, prompts and turns by name, numbers within their bounds."""
