// Takes away the functions of simulator/machine/blocks.h that answer the question of the exercise: the
// compiler refuses a file that names one of them after this line.
#pragma once

#include "simulator/machine/device.h"

#pragma GCC poison blocks row_blocks all_rows col_blocks packed_row_blocks visible_cols visible_rows \
    key_splits
