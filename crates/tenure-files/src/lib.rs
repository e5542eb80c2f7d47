//! tenure-files
