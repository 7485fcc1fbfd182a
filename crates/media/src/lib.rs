//! NAND, DRAM and persistent memory: rules, timing, wear, faults
