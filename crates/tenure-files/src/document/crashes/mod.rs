//! Every crash of every protocol of documents, on the simulated disk.
//!
//! | module | what it holds |
//! |---|---|
//! | `world` | what documents may look like |
//! | `site` | documents over a simulated disk |
//! | `protocol` | documents as the harness in `crate::crashes` takes them |
//! | the others | the scenarios |

mod protocol;
mod recovery;
mod several;
mod single;
mod site;
mod world;
