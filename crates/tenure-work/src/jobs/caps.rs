//! The caps, the jobs that run now, and what a cap refuses.
//!
//! A cap counts the jobs in the list that it is about; no number is kept beside the list. A cap
//! that was lowered below what runs ends nothing: it refuses starts until there is room again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_api::jobs::{Caps, Reason};

/// The largest cap. A larger one is no cap at all, and is left out instead.
pub const CAP_MAX: u32 = 10_000;

/// The part of a job that caps look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The project.
    pub project: String,
    /// The map it works on, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// The class.
    pub class: String,
}

/// The jobs that run now, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Running {
    jobs: BTreeMap<String, Place>,
}

/// A cap that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The cap.
    pub reason: Reason,
    /// How many it allows.
    pub cap: u32,
    /// The jobs that count, by id.
    pub running: Vec<String>,
}

impl Running {
    /// Returns every cap that a further job in this place would exceed.
    pub fn refusals(&self, caps: &Caps, place: &Place) -> Vec<Refusal> {
        let of_project = |other: &Place| other.project == place.project;
        let class = caps.classes.get(&place.class).copied();
        let map_cap = caps.map_per_project.filter(|_| place.map.is_some());
        let refusals = [
            self.refusal(Reason::GlobalCap, caps.global, |_| true),
            self.refusal(Reason::ProjectCap, caps.per_project, of_project),
            self.refusal(Reason::MapCap, map_cap, |other| {
                of_project(other) && other.map.is_some()
            }),
            self.refusal(Reason::ClassCap, class, |other| other.class == place.class),
        ];
        refusals.into_iter().flatten().collect()
    }

    fn refusal(
        &self,
        reason: Reason,
        cap: Option<u32>,
        counts: impl Fn(&Place) -> bool,
    ) -> Option<Refusal> {
        let cap = cap?;
        let counted = self.jobs.iter().filter(|(_, other)| counts(other));
        let running: Vec<String> = counted.map(|(id, _)| id.clone()).collect();
        (running.len() >= cap as usize).then_some(Refusal {
            reason,
            cap,
            running,
        })
    }

    /// Adds a job that starts. Returns false if it was there already.
    pub fn add(&mut self, id: &str, place: Place) -> bool {
        self.jobs.insert(id.to_owned(), place).is_none()
    }

    /// Takes out a job whose attempt has ended. Returns false if it was not there.
    pub fn remove(&mut self, id: &str) -> bool {
        self.jobs.remove(id).is_some()
    }

    /// Returns the jobs, by id.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = (&str, &Place)> {
        self.jobs.iter().map(|(id, place)| (id.as_str(), place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(project: &str, map: Option<&str>, class: &str) -> Place {
        Place {
            project: project.into(),
            map: map.map(str::to_owned),
            class: class.into(),
        }
    }

    fn running() -> Running {
        let mut running = Running::default();
        assert!(running.add("j1", place("a", Some("m1"), "cpu")));
        assert!(running.add("j2", place("a", None, "io")));
        assert!(running.add("j3", place("b", Some("m1"), "cpu")));
        assert!(!running.add("j3", place("b", Some("m1"), "cpu")));
        running
    }

    #[test]
    fn each_cap_counts_the_jobs_that_it_is_about() {
        let caps = Caps {
            global: Some(3),
            per_project: Some(2),
            map_per_project: Some(1),
            classes: [("cpu".to_owned(), 2)].into(),
        };
        let refused = |place| -> Vec<(Reason, usize)> {
            let refusals = running().refusals(&caps, &place);
            refusals
                .iter()
                .map(|it| (it.reason, it.running.len()))
                .collect()
        };
        assert_eq!(
            refused(place("a", Some("m2"), "cpu")),
            [
                (Reason::GlobalCap, 3),
                (Reason::ProjectCap, 2),
                (Reason::MapCap, 1),
                (Reason::ClassCap, 2),
            ]
        );
        assert_eq!(refused(place("b", None, "io")), [(Reason::GlobalCap, 3)]);
    }

    #[test]
    fn what_is_not_set_is_not_bounded_and_a_lowered_cap_waits_for_room() {
        let mut running = running();
        assert_eq!(
            running.refusals(&Caps::default(), &place("a", Some("m"), "cpu")),
            []
        );
        let caps = Caps {
            global: Some(1),
            ..Caps::default()
        };
        for id in ["j1", "j2", "j3"] {
            assert_eq!(running.refusals(&caps, &place("c", None, "io")).len(), 1);
            assert!(running.remove(id));
            assert!(!running.remove(id));
        }
        assert_eq!(running.refusals(&caps, &place("c", None, "io")), []);
    }
}
