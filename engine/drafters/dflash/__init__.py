"""Block-diffusion drafters (DFlash): one pass gives the marginals of a whole block."""

from engine.drafters.dflash.checkpoint import plan as plan
from engine.drafters.dflash.checkpoint import recognises as recognises
