//! The file store.

use std::path::Path;

use tenure::{Keeper, Resource};
use tenure_testkit::{Fixture, Fresh, conformance, kernel_locks};

struct File;

impl Fixture for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn fresh(&self) -> Fresh {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        Fresh {
            url: format!("file:{}", directory.path().display()),
            keep: Box::new(directory),
        }
    }

    /// Counts in the kernel, where the first waiter of each process waits.
    fn waiters(&self, keeper: &Keeper, resource: &Resource) -> usize {
        let path = tenure::internal::store(keeper).location_of(resource);
        kernel_locks::waiters(Path::new(&path))
    }
}

conformance!(File);
