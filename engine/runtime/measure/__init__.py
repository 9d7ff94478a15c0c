"""What passes and rounds cost, what would have been accepted, why acceptance is low."""
