//! Every crash of every protocol of documents, on the simulated disk.
//!
//! | module | what it holds |
//! |---|---|
//! | `world` | the contents that documents may have |
//! | `site` | documents over a simulated disk |
//! | `protocol` | documents as the harness in `tenure_os::crashes` takes them |
//! | `strangers` | another program renames a file over a document right before the exchange |
//! | the others | the scenarios |

mod protocol;
mod recovery;
mod several;
mod single;
mod site;
mod strangers;
mod world;
