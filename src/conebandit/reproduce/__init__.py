"""The paper's tables and figures, made anew and compared with what was printed."""
