"""Block-diffusion drafters (DFlash): one pass gives the marginals of a whole block."""
