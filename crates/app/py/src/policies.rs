//! Policies of flash that are written in Python.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lab_report::control::Cancel;
use live::policies::{self, HostWrite, PlacementPolicy, VictimPolicy, Writer};
use pyo3::{
    exceptions::{PyIndexError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyIterator, PyList},
};

use crate::integer::Whole;

/// A superblock that can be collected.
#[pyclass(frozen, get_all, module = "tranche")]
#[derive(Clone)]
pub struct Candidate {
    superblock: u32,
    valid: u32,
    usable: u32,
    age: u64,
    erases: u32,
    stream: usize,
    relocated: bool,
}

impl From<&policies::Candidate> for Candidate {
    fn from(candidate: &policies::Candidate) -> Self {
        let (relocated, stream) = match candidate.writer {
            Writer::Host(stream) => (false, stream),
            Writer::Relocation(stream) => (true, stream),
        };
        let policies::Candidate { superblock, valid, usable, age, erases, .. } = *candidate;
        Self { superblock, valid, usable, age, erases, stream, relocated }
    }
}

#[pymethods]
impl Candidate {
    fn __repr__(&self) -> String {
        format!("<tranche.Candidate {}: {} of {} pages valid>", self.superblock, self.valid, self.usable)
    }
}

/// All that can be collected: a sequence, and its columns.
#[pyclass(frozen, sequence, module = "tranche")]
pub struct Candidates(Vec<policies::Candidate>);

#[pymethods]
impl Candidates {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<Candidate> {
        let at = if index < 0 { self.0.len().checked_add_signed(index) } else { usize::try_from(index).ok() };
        let candidate = at.and_then(|at| self.0.get(at));
        candidate.map(Candidate::from).ok_or_else(|| PyIndexError::new_err(index))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.0.iter().map(Candidate::from).collect::<Vec<_>>())?.try_iter()
    }

    #[getter]
    fn superblock(&self) -> Vec<u32> {
        self.0.iter().map(|c| c.superblock).collect()
    }

    #[getter]
    fn valid(&self) -> Vec<u32> {
        self.0.iter().map(|c| c.valid).collect()
    }

    #[getter]
    fn usable(&self) -> Vec<u32> {
        self.0.iter().map(|c| c.usable).collect()
    }

    #[getter]
    fn age(&self) -> Vec<u64> {
        self.0.iter().map(|c| c.age).collect()
    }

    #[getter]
    fn erases(&self) -> Vec<u32> {
        self.0.iter().map(|c| c.erases).collect()
    }

    fn __repr__(&self) -> String {
        format!("<tranche.Candidates: {} superblocks>", self.0.len())
    }
}

/// The first exception that a policy raised. It ends the run.
#[derive(Default)]
struct Trouble {
    raised: Mutex<Option<PyErr>>,
    cancel: OnceLock<Cancel>,
}

impl Trouble {
    fn note(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        if let Some(cancel) = self.cancel.get() {
            cancel.cancel();
        }
    }
}

/// An object with a policy's methods. Each NVM Set has a deep copy of it.
struct Own {
    object: Py<PyAny>,
    trouble: Arc<Trouble>,
}

impl Own {
    /// What a method gives; nothing after an exception.
    fn call<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        Python::attach(|py| {
            let given = call(self.object.bind(py));
            given.map_err(|error| self.trouble.note(error)).ok()
        })
    }
}

impl Clone for Own {
    fn clone(&self) -> Self {
        let copied = self.call(|object| {
            let copied = object.py().import("copy")?.call_method1("deepcopy", (object,))?;
            Ok(copied.unbind())
        });
        let object = copied.unwrap_or_else(|| Python::attach(|py| self.object.clone_ref(py)));
        Self { object, trouble: self.trouble.clone() }
    }
}

#[derive(Clone)]
struct Victim(Own);

impl VictimPolicy for Victim {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = policies::Candidate>) -> Option<u32> {
        let all: Vec<_> = candidates.collect();
        if all.is_empty() {
            return None;
        }
        self.0.call(|policy| {
            let numbers: Vec<u32> = all.iter().map(|c| c.superblock).collect();
            let chosen: Option<Whole<u32>> = policy.call1((Candidates(all),))?.extract()?;
            let chosen = Whole::maybe(chosen, "what the policy chose")?;
            match chosen {
                Some(chosen) if numbers.binary_search(&chosen).is_err() => {
                    let why = format!("the policy chose superblock {chosen}, which is no candidate");
                    Err(PyValueError::new_err(why))
                }
                chosen => Ok(chosen),
            }
        })?
    }
}

#[derive(Clone)]
struct Placement {
    own: Own,
    hosts: usize,
    relocations: usize,
}

impl Placement {
    fn stream(stream: usize, of: usize, what: &str) -> PyResult<usize> {
        if stream < of {
            return Ok(stream);
        }
        Err(PyValueError::new_err(format!("the policy named {what} stream {stream}, and there are {of}")))
    }
}

impl PlacementPolicy for Placement {
    fn host_streams(&self, _handles: usize) -> usize {
        self.hosts
    }

    fn relocation_streams(&self, _handles: usize) -> usize {
        self.relocations
    }

    fn host(&mut self, write: HostWrite) -> usize {
        let stream = self.own.call(|policy| {
            let stream: Whole<usize> = policy.call_method1("host", (write.page, write.written))?.extract()?;
            Self::stream(stream.named("the policy's host stream")?, self.hosts, "host")
        });
        stream.unwrap_or(0)
    }

    fn relocated(&mut self, victim: &policies::Candidate) -> Writer {
        let stream = self.own.call(|policy| {
            let stream: Whole<usize> =
                policy.call_method1("relocated", (Candidate::from(victim),))?.extract()?;
            Self::stream(stream.named("the policy's relocation stream")?, self.relocations, "relocation")
        });
        Writer::Relocation(stream.unwrap_or(0))
    }
}

/// The policies of a run, and the first exception that they raise.
#[derive(Default)]
pub struct Policies {
    pub policies: policies::Policies,
    trouble: Arc<Trouble>,
}

impl Policies {
    /// Of a callable, and of an object with `host_streams`, `relocation_streams`, `host` and `relocated`.
    ///
    /// # Errors
    /// One of them is none. What its methods raise later ends the run.
    pub fn new(py: Python<'_>, victim: Option<Py<PyAny>>, placement: Option<Py<PyAny>>) -> PyResult<Self> {
        if let Some(victim) =
            victim.as_ref().map(|victim| victim.bind(py)).filter(|victim| !victim.is_callable())
        {
            let why = format!(
                "victim is {}, which is not callable: it is a function of the candidates (gc.policy names a policy of the drive)",
                victim.repr()?
            );
            return Err(PyTypeError::new_err(why));
        }
        let trouble = Arc::new(Trouble::default());
        let own = |object| Own { object, trouble: trouble.clone() };
        let placement = placement.map(|object| {
            let streams = |name| object.getattr(py, name)?.extract::<Whole<usize>>(py)?.named(name);
            let (hosts, relocations) = (streams("host_streams")?, streams("relocation_streams")?);
            let policy: Arc<dyn PlacementPolicy> =
                Arc::new(Placement { own: own(object), hosts, relocations });
            PyResult::Ok(policy)
        });
        let policies = policies::Policies {
            victim: victim.map(|object| Arc::new(Victim(own(object))) as Arc<dyn VictimPolicy>),
            placement: placement.transpose()?,
        };
        Ok(Self { policies, trouble })
    }

    /// An exception cancels this.
    pub fn cancels(&self, cancel: &Cancel) {
        // It is set once for each run.
        let _ = self.trouble.cancel.set(cancel.clone());
    }

    /// # Errors
    /// The exception that a policy raised.
    pub fn raised(&self) -> PyResult<()> {
        let raised = self.trouble.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or(Ok(()), Err)
    }
}
