//! The database deleted, replaced or cut while it is in use, or before.

mod cut;
mod replaced;
