// For languages that name no functions of C++.

#include "frazil/block_cache.h"

extern "C" void frazil_register_block_cache() { frazil::RegisterBlockCache(); }
