"""Where rounds come from: recordings, and the rig that answers now."""
