//! Every crash of every protocol of documents, on the simulated disk.
//!
//! | module | what it holds |
//! |---|---|
//! | `world` | what documents may look like: the oracle |
//! | `site` | documents over a simulated disk |
//! | `scenario`, `run` | what a process does, step by step; one run of it |
//! | `enumerate` | every crash of a scenario, every state it may leave, every crash of the recovery |
//! | `check` | a scenario with all its crashes, failures and removed syncs, and the line that tells of it |
//! | the others | the scenarios |
//!
//! Each scenario runs with every single sync ignored, too, and each time a violation must be found:
//! that shows both that the enumeration sees what it should and that no sync is for nothing.

mod check;
mod enumerate;
mod recovery;
mod run;
mod scenario;
mod several;
mod single;
mod site;
mod world;
