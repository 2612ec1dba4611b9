"""The paper's tables, figures and bounds, reproduced and compared with what was printed."""
