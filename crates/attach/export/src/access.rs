//! Permissions and ownership, which the user may change while the directory is mounted.

/// Of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What is to be changed; `None` stays.
#[derive(Clone, Copy, Default)]
pub struct AccessChange {
    /// Permission bits; others are ignored.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

impl AccessChange {
    /// Carries it out.
    pub fn apply(self, access: &mut Access) {
        // Only the permission bits; 12 bits fit.
        access.mode = self.mode.map_or(access.mode, |mode| (mode & 0o7777) as u16);
        access.uid = self.uid.unwrap_or(access.uid);
        access.gid = self.gid.unwrap_or(access.gid);
    }
}
