"""The way back: the old source returns. Facts are frozen, decisions are pure, unknown is never good news."""
