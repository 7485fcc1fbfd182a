//! Where data go: which stream takes what a host writes, and which takes what collection moves. A new policy is a file here with
//! a type that has [`PlacementPolicy`], and a variant of [`Placement`]. A policy of another crate comes with
//! [`Policies`](crate::Policies).
//!
//! A set has *host streams*, one for each placement handle at least, which hosts write to, and *relocation streams*, which collection writes to. Each stream has a
//! superblock of its own open. What ends up in one superblock is erased together, so a policy brings together what dies together.

mod by_handle;
mod mixed;
mod policy;
mod together;

use by_handle::ByHandle;
use mixed::Mixed;
pub use policy::PlacementPolicy;
use together::Together;

/// The policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// Collection mixes the data of all handles.
    Mixed,
    /// Collection, too, keeps the data of each handle by itself.
    ByHandle,
    /// Collection writes where the host does, with the data of this percentage of the victims: 1 to 100.
    Together(u32),
}

impl Placement {
    /// How it places data.
    pub fn policy(self) -> Box<dyn PlacementPolicy> {
        match self {
            Placement::Mixed => Box::new(Mixed),
            Placement::ByHandle => Box::new(ByHandle),
            Placement::Together(percent) => Box::new(Together::new(percent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy_input::{Candidate, HostWrite, Writer};

    const ALL: [Placement; 3] = [Placement::Mixed, Placement::ByHandle, Placement::Together(100)];

    fn victim(writer: Writer) -> Candidate {
        Candidate { superblock: 3, valid: 1, usable: 2, age: 1, erases: 0, writer }
    }

    #[test]
    fn data_never_leave_the_streams_that_there_are() {
        for (placement, handles) in ALL.into_iter().flat_map(|p| [1, 4].map(|handles| (p, handles))) {
            let mut policy = placement.policy();
            let streams = policy.relocation_streams(handles);
            assert!(streams >= 1, "{placement:?}");
            let writers = (0..handles).map(Writer::Host).chain((0..streams).map(Writer::Relocation));
            for writer in writers {
                match policy.relocated(&victim(writer)) {
                    Writer::Host(handle) => assert!(handle < handles, "{placement:?}"),
                    Writer::Relocation(stream) => assert!(stream < streams, "{placement:?}"),
                }
                assert!(policy.handle(writer).is_none_or(|handle| handle < handles), "{placement:?}");
            }
            let write = |handle| HostWrite { page: 7, written: 9, handle, handles };
            let streams = [0, handles - 1, handles].map(|handle| policy.host(write(handle)));
            assert_eq!(streams, [0, handles - 1, 0]);
        }
    }

    #[test]
    fn policies_place_as_their_names_say() {
        let mut all = ALL.map(Placement::policy);
        assert_eq!(all.each_ref().map(|p| p.relocation_streams(3)), [1, 3, 1]);
        let mut relocated = |writer| all.each_mut().map(|p| p.relocated(&victim(writer)));
        let (first, host) = (Writer::Relocation(0), Writer::Host(0));
        assert_eq!(relocated(Writer::Host(0)), [first, first, host]);
        assert_eq!(relocated(Writer::Host(2)), [first, Writer::Relocation(2), host]);
        assert_eq!(relocated(Writer::Relocation(2)), [first, Writer::Relocation(2), host]);
        assert_eq!(all.map(|p| p.handle(Writer::Relocation(0))), [None, Some(0), None]);
    }

    #[test]
    fn a_share_of_the_victims_goes_where_the_host_writes() {
        for percent in [1, 40, 75, 100] {
            let mut policy = Placement::Together(percent).policy();
            let to_host =
                (0..100).filter(|_| policy.relocated(&victim(Writer::Host(0))) == Writer::Host(0)).count();
            assert_eq!(to_host, percent as usize);
        }
    }
}
