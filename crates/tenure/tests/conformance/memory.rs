//! The memory store.

use tenure_testkit::{Fixture, Fresh, conformance};

struct Memory;

impl Fixture for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn fresh(&self) -> Fresh {
        Fresh {
            url: "memory:".into(),
            keep: Box::new(()),
        }
    }
}

conformance!(Memory);
