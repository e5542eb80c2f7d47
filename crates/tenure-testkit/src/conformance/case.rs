//! One claim, and what a store must be able to do for it.

use tenure::Capabilities;

use crate::stage::Stage;

/// One claim about a store.
pub(super) struct Case {
    /// The claim: the name of its function.
    pub(super) name: &'static str,
    /// What a store needs to be asked at all.
    pub(super) need: Option<Need>,
    /// Fails if the claim is wrong.
    pub(super) run: fn(&Stage<'_>),
}

/// What only some stores can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Waiters are served strictly in the order they came.
    StrictOrder,
    /// Other processes meet in the store, so it outlives them.
    CrossProcess,
}

impl Need {
    pub(super) fn is_met(self, capabilities: &Capabilities) -> bool {
        match self {
            Need::StrictOrder => capabilities.strict_order,
            Need::CrossProcess => capabilities.cross_process,
        }
    }

    pub(super) fn why(self) -> &'static str {
        match self {
            Need::StrictOrder => "does not promise a strict order of waiters",
            Need::CrossProcess => "ends with its process",
        }
    }
}

/// A case named after its function, with what it needs of a store.
macro_rules! case {
    ($name:ident) => {
        $crate::conformance::case::Case {
            name: stringify!($name),
            need: None,
            run: $name,
        }
    };
    ($name:ident, $need:ident) => {
        $crate::conformance::case::Case {
            name: stringify!($name),
            need: Some($crate::conformance::case::Need::$need),
            run: $name,
        }
    };
}

pub(super) use case;
