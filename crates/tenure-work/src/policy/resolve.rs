//! The locks that an operation needs in one case, with the reason for each.

use tenure::config::{LockPattern, Operation};
use tenure::{Error, Mode, Resource, Result};
use tenure_api::op::Scope;
use tenure_core::error::{Class, Fault, Remedy};

/// A lock that an operation needs, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededLock {
    /// The resource to lock.
    pub resource: Resource,
    /// The mode of the lock.
    pub mode: Mode,
    /// The reason, for people.
    pub why: String,
}

/// The demands of an operation on its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs<'a> {
    /// The keys of its locks, for any number.
    pub keys: Vec<&'a str>,
    /// The key of its number, if it has one.
    pub count: Option<&'a str>,
}

impl<'a> Needs<'a> {
    /// Returns the keys that an operation asks for.
    pub fn of(operation: &'a Operation) -> Self {
        let locks = lists(operation).flatten();
        let mut keys: Vec<&str> = Vec::new();
        for key in locks.flat_map(LockPattern::keys) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let count = operation.count.as_deref();
        Self { keys, count }
    }
}

/// The reason for the lock on a level above.
const ABOVE: &str = "read on the levels above";

pub(super) fn locks_of(
    name: &str,
    operation: &Operation,
    scope: &Scope,
) -> Result<Vec<NeededLock>> {
    let needs = Needs::of(operation);
    let known = |key: &str| needs.keys.contains(&key) || needs.count == Some(key);
    let unknown = scope.keys().find(|key| !known(key));
    if let Some(unknown) = unknown {
        let known: Vec<&str> = needs.keys.iter().copied().chain(needs.count).collect();
        return Err(Error::BadInput(format!(
            "{name} knows no {unknown}; it takes {}",
            known.join(", ")
        )));
    }
    let chosen = chosen(name, operation, scope)?;
    // If the number is missing, the keys that every number needs are missing, too.
    let lists: Vec<&[LockPattern]> = match chosen {
        Some((locks, _)) => vec![locks],
        None => lists(operation).collect(),
    };
    let is_in =
        |key: &str, locks: &[LockPattern]| locks.iter().any(|lock| lock.keys().any(|of| of == key));
    let is_needed = |key: &&str| lists.iter().all(|locks| is_in(key, locks));
    let keys = needs.keys.iter().copied().filter(is_needed);
    let mut missing: Vec<&str> = keys.filter(|key| scope.get(key).is_none()).collect();
    missing.sort_unstable();
    if chosen.is_none() {
        missing.extend(needs.count);
    }
    let Some((locks, why)) = chosen.filter(|_| missing.is_empty()) else {
        return Err(lacking(name, &missing));
    };
    locks
        .iter()
        .map(|lock| {
            let resource = lock.filled(|key| scope.get(key).unwrap_or_default());
            let resource =
                resource.map_err(|problem| Error::BadInput(format!("{name}: {problem}")))?;
            Ok(NeededLock {
                resource,
                mode: lock.mode,
                why: reason(lock, locks, why).to_owned(),
            })
        })
        .collect()
}

/// Returns the reason why a lock is among the locks of an operation.
pub fn reason<'a>(lock: &LockPattern, locks: &[LockPattern], why: &'a str) -> &'a str {
    let above = lock.mode == Mode::Read && locks.iter().any(|other| other.mode != Mode::Read);
    if above { ABOVE } else { why }
}

/// Returns all sets of locks that an operation may need.
fn lists(operation: &Operation) -> impl Iterator<Item = &[LockPattern]> {
    let above = operation.above.iter().map(|above| above.locks.as_slice());
    [operation.locks.as_slice()].into_iter().chain(above)
}

/// Returns the locks for the given number, and the reason, or `None` if the number is needed and
/// not given.
fn chosen<'a>(
    name: &str,
    operation: &'a Operation,
    scope: &Scope,
) -> Result<Option<(&'a [LockPattern], &'a str)>> {
    let Some(count) = &operation.count else {
        return Ok(Some((&operation.locks, &operation.why)));
    };
    let Some(given) = scope.get(count) else {
        return Ok(None);
    };
    let number: u64 = given.parse().map_err(|_| {
        let shown: String = given.chars().take(80).collect();
        Error::BadInput(format!("{name}: {count}={shown} is no whole number"))
    })?;
    let above = operation
        .above
        .iter()
        .rfind(|above| number > above.more_than);
    Ok(Some(match above {
        Some(above) => (&above.locks, &above.why),
        None => (&operation.locks, &operation.why),
    }))
}

/// The error for an operation that needs more values than were given.
#[derive(Debug, thiserror::Error)]
#[error("{operation} needs {}", missing.join(" and "))]
struct Lacking {
    operation: String,
    missing: Vec<String>,
}

impl Fault for Lacking {
    fn class(&self) -> Class {
        Class::BadInput
    }

    fn remedy(&self) -> Remedy {
        let with = |key: &String| Remedy::of(" {.with} {}=…", &[key]);
        let with = self.missing.iter().map(with);
        with.fold("add".into(), |add, with| add.then(with))
    }
}

fn lacking(name: &str, missing: &[&str]) -> Error {
    let (operation, missing) = (name.to_owned(), missing.iter().map(|key| (*key).to_owned()));
    Lacking {
        operation,
        missing: missing.collect(),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::maps;
    use super::*;

    fn scope(pairs: &[(&str, &str)]) -> Scope {
        Scope::new(
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into())),
        )
        .unwrap()
    }

    /// Returns the locks of an operation, as `resource=mode resource=mode`.
    fn locks(name: &str, pairs: &[(&str, &str)]) -> Result<String> {
        let locks = maps().locks_of(name, &scope(pairs))?;
        let shown = locks
            .iter()
            .map(|lock| format!("{}={}", lock.resource, lock.mode));
        Ok(shown.collect::<Vec<_>>().join(" "))
    }

    const PROJECT: (&str, &str) = ("project", "atlas");
    const MAP: (&str, &str) = ("map", "m3");
    const SKETCH: (&str, &str) = ("sketch", "s1");

    /// Checks section 4 of the specification, one line for each of its bullets.
    #[test]
    fn every_rule_of_projects_maps_and_sketches_is_an_operation() {
        let project_write = "project:atlas=write";
        let project_read = "project:atlas=read";
        let map_write = "project:atlas=read map:atlas/m3=write";
        let map_read = "project:atlas=read map:atlas/m3=read";
        let sketch_write = "project:atlas=read map:atlas/m3=read sketch:atlas/m3/s1=write";
        let sketch_read = "project:atlas=read map:atlas/m3=read sketch:atlas/m3/s1=read";
        let rules: [(&str, &str); 25] = [
            ("project.edit", project_write),
            ("project.recalculate", project_write),
            ("project.permissions", project_write),
            ("project.apply-template", project_write),
            ("project.import", project_write),
            ("project.destroy", project_write),
            ("project.view", project_read),
            ("project.list", project_read),
            ("project.query", project_read),
            ("map.calibrate", map_write),
            ("map.tiles", map_write),
            ("map.import", map_write),
            ("map.delete", map_write),
            ("map.view", map_read),
            ("map.export", map_read),
            ("map.render", map_read),
            ("map.query", map_read),
            ("sketch.create", sketch_write),
            ("sketch.delete", sketch_write),
            ("sketch.edit", sketch_write),
            ("sketch.reassign", sketch_write),
            ("sketch.view", sketch_read),
            ("sketch.measure", sketch_read),
            ("sketch.inspect", sketch_read),
            ("map.bulk", map_write),
        ];
        for (name, expected) in rules {
            let needs = maps();
            let needs = Needs::of(&needs.find(name).unwrap().operation);
            let pairs = [PROJECT, MAP, SKETCH]
                .into_iter()
                .filter(|(key, _)| needs.keys.contains(key));
            let mut pairs: Vec<_> = pairs.collect();
            pairs.extend(needs.count.map(|count| (count, "1001")));
            assert_eq!(locks(name, &pairs).unwrap(), expected, "{name}");
        }
        // Besides these there is only sketch.bulk, which has a test of its own.
        assert_eq!(maps().operations().len(), rules.len() + 1);
    }

    #[test]
    fn the_number_of_objects_decides_which_level_is_written() {
        let all = [PROJECT, MAP, SKETCH];
        let map_write = "project:atlas=read map:atlas/m3=write";
        let sketch_write = "project:atlas=read map:atlas/m3=read sketch:atlas/m3/s1=write";
        for (name, objects, expected) in [
            ("map.bulk", "1000", sketch_write),
            ("map.bulk", "1001", map_write),
            ("sketch.bulk", "1", sketch_write),
            ("sketch.bulk", "100", sketch_write),
            ("sketch.bulk", "101", sketch_write),
            ("sketch.bulk", "1000", sketch_write),
            ("sketch.bulk", "1001", map_write),
        ] {
            let pairs: Vec<_> = all.into_iter().chain([("objects", objects)]).collect();
            assert_eq!(locks(name, &pairs).unwrap(), expected, "{name} {objects}");
        }
        let why = |objects| {
            let pairs: Vec<_> = all.into_iter().chain([("objects", objects)]).collect();
            let locks = maps().locks_of("sketch.bulk", &scope(&pairs)).unwrap();
            locks.last().unwrap().why.clone()
        };
        assert_ne!(why("100"), why("101"), "more than 100 is a bulk operation");
    }

    #[test]
    fn nothing_is_guessed() {
        let problem = |name, pairs: &[_]| {
            let error = locks(name, pairs).unwrap_err();
            assert_eq!(error.class(), tenure::Class::BadInput);
            error.to_string()
        };
        assert!(problem("map.calibrate", &[PROJECT]).contains("needs map"));
        assert!(problem("map.calibrate", &[]).contains("map and project"));
        let said = problem("map.calibrate", &[PROJECT, MAP, SKETCH]);
        assert!(
            said.contains("knows no sketch; it takes project, map"),
            "{said}"
        );
        let said = problem("map.bulk", &[PROJECT, MAP, SKETCH]);
        assert!(said.contains("needs objects"), "{said}");
        let said = problem("map.bulk", &[PROJECT]);
        assert!(said.ends_with("needs map and objects"), "{said}");
        let one = problem("project.edit", &[("project", "a/b")]);
        assert!(one.contains("project=a/b"), "{one}");
        let few = [PROJECT, MAP, ("objects", "5")];
        assert!(problem("map.bulk", &few).contains("needs sketch"));
        let odd = [PROJECT, MAP, ("objects", "many")];
        assert!(problem("map.bulk", &odd).contains("objects=many is no whole number"));
        let slash = [PROJECT, ("map", "m3/m4")];
        assert!(problem("map.calibrate", &slash).contains("map=m3/m4"));
        let twice = Scope::new([("map".into(), "a".into()), ("map".into(), "a".into())]);
        assert!(
            twice
                .unwrap_err()
                .to_string()
                .contains("map is given twice")
        );
    }
}
