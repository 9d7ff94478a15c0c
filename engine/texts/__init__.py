"""From text to tokens and back, within limits: chat templates and tokenizers are programs of whoever made them."""
