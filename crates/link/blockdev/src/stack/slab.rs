//! Numbered things.

/// Things by numbers that are used again.
#[derive(Debug)]
pub struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }

    /// Takes a thing, and gives its number: one that is free, else the next.
    #[inline]
    pub fn insert(&mut self, thing: T) -> u32 {
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

    /// Gives a thing back; its number is free.
    #[inline]
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.all.get_mut(at as usize)?.take();
        if thing.is_some() {
            self.free.push(at);
        }
        thing
    }

    /// The thing with this number.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.all.get(at as usize)?.as_ref()
    }

    /// The thing with this number, to be changed.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.all.get_mut(at as usize)?.as_mut()
    }

    /// All of them, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }

    /// All of them, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut().flatten()
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::new();
        assert_eq!((slab.insert('a'), slab.insert('b'), slab.len()), (0, 1, 2));
        assert_eq!((slab.remove(0), slab.remove(0), slab.remove(7)), (Some('a'), None, None));
        assert_eq!((slab.get(0), slab.get(1), slab.len()), (None, Some(&'b'), 1));
        assert_eq!((slab.insert('c'), slab.get(0), slab.is_empty()), (0, Some(&'c'), false));
        slab.iter_mut().for_each(|thing| *thing = 'd');
        assert_eq!(slab.iter().collect::<String>(), "dd");
        assert_eq!((slab.get(0), slab.get(1)), (Some(&'d'), Some(&'d')));
    }
}
