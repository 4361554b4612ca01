// What the estimates of several templates know, by hand (commits 6aec8d5, 326a3a5 and 4f9dbd5; no sweep was kept).
#pragma once

namespace kfuse::codegen::cpu {

/// Kernels that compute strips of elements. Nanoseconds.
struct StripCosts {
  double perStrip = 4;  ///< To set a strip up.
  double perOp = 0.3;   ///< An op on `lanes` elements.
  double perStaged = 1; ///< An element that goes through a buffer.
  double lanes = 16;

  double ofPoint(double ops, int staged) const { return perOp * ops / lanes + perStaged * staged; }
};

/// Kernels that multiply packed panels.
struct PanelCosts {
  double rateShare = 0.8; ///< The share that a thread reaches of its nominal rate.
  double packing = 10;    ///< Multiply-adds that packing an element costs.
};

} // namespace kfuse::codegen::cpu
