//! One exploration and what it is expected to find.

use std::{collections::BTreeMap, num::NonZero, sync::Mutex, thread, time::Instant};

use crate::search::{self, Found, Model};

/// Deliberate faults, and a list of them.
macro_rules! mutants {
    ($(#[$about:meta])* Mutant { $($(#[$fault:meta])* $name:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Mutant {
            $($(#[$fault])* $name,)*
        }

        impl Mutant {
            const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}
pub(crate) use mutants;

/// One exploration.
pub(crate) struct Trial {
    pub(crate) name: String,
    /// A rule is broken on purpose, and that is to be found.
    is_mutant: bool,
    explore: Box<dyn Fn() -> Found + Send>,
}

/// The same model but for what `change` does to it.
pub(crate) fn with<M>(mut model: M, change: impl FnOnce(&mut M)) -> M {
    change(&mut model);
    model
}

/// Every rule must hold in every course.
pub(crate) fn whole<M: Model + Send + 'static>(name: &str, model: M) -> Trial {
    Trial::new(name, false, model)
}

/// A rule is broken on purpose, and a course must show it.
pub(crate) fn mutant<M: Model + Send + 'static>(name: &str, model: M) -> Trial {
    Trial::new(name, true, model)
}

/// Explores each, as many at a time as there are processors, and says what was found of it. In the same
/// order.
pub(crate) fn run_all(trials: Vec<Trial>) -> Vec<(Trial, Found)> {
    let open = Mutex::new(trials.into_iter().enumerate());
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let next = open.lock().unwrap().next();
            let Some((place, trial)) = next else {
                break;
            };
            let found = trial.run();
            done.lock().unwrap().insert(place, (trial, found));
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

impl Trial {
    fn new<M: Model + Send + 'static>(name: &str, is_mutant: bool, model: M) -> Self {
        Self {
            name: name.into(),
            is_mutant,
            explore: Box::new(move || search::explore(&model)),
        }
    }

    /// Explores, and says what was found.
    pub(crate) fn run(&self) -> Found {
        let began = Instant::now();
        let found = (self.explore)();
        let seconds = began.elapsed().as_secs_f64();
        let Found { states, steps, .. } = found;
        println!(
            "{}: {states} states, {steps} steps, {seconds:.1} s: {}",
            self.name,
            self.result(&found)
        );
        found
    }

    fn result(&self, found: &Found) -> String {
        match &found.violation {
            None if self.is_mutant => "NOT FOUND".to_owned(),
            None => "all in order".to_owned(),
            Some(violation) if self.is_mutant => {
                format!("{}, in {} steps", violation.rule, violation.course.len())
            }
            Some(violation) => {
                let name = &self.name;
                format!(
                    "WRONG: {} (`--only \"{name}\"` prints the steps)",
                    violation.rule
                )
            }
        }
    }

    pub(crate) fn is_as_expected(&self, found: &Found) -> bool {
        found.violation.is_some() == self.is_mutant
    }
}
