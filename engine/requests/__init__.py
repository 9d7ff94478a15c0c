"""What a person may ask for: rigs, prompts and turns by name, and numbers within their bounds."""
