//! Tensors, tensor sets and the memory behind them.
