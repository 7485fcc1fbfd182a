//! Numbered things.

/// Things by numbers that are used again.
pub(crate) struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.all[at as usize] = Some(thing);
                at
            }
            None => {
                self.all.push(Some(thing));
                self.all.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.all.get_mut(at as usize)?.take();
        if thing.is_some() {
            self.free.push(at);
        }
        thing
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.all.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.all.get_mut(at as usize)?.as_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut().flatten()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
