// What exercise 11 is written against.
#pragma once

/// What the exercise defines: launches a kernel that reads `scores` (rows, cols), row-major, once, and writes
/// for every row its maximum m and l = sum exp(score - m). All pointers are in device memory; cols >= 1.
void online_softmax(const float* scores, float* m, float* l, int rows, int cols);
