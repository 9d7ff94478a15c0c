"""From text to tokens and back, within limits: chat templates and tokenizers are programs by their publishers."""
