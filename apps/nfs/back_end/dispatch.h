// For back ends that treat all operations alike: hand them to a thread, say.
#ifndef RPCRDMA_NFS_BACK_END_DISPATCH_H_
#define RPCRDMA_NFS_BACK_END_DISPATCH_H_

#include <utility>

#include "nfs/file_system.h"

namespace nfs {

// `Derived` has
//   template <class Results, class Args, class... More>
//   void start(Caller caller, Args args, Done<Results> done, More... more);
// where `More` is the memory of READ and READLINK.
template <class Derived>
class DispatchingFileSystem : public FileSystem {
 public:
  void get_attributes(Caller caller, nfs3::GETATTR3args args,
                      Done<nfs3::GETATTR3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void set_attributes(Caller caller, nfs3::SETATTR3args args,
                      Done<nfs3::SETATTR3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void look_up(Caller caller, nfs3::LOOKUP3args args, Done<nfs3::LOOKUP3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void access(Caller caller, nfs3::ACCESS3args args, Done<nfs3::ACCESS3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void read_link(Caller caller, nfs3::READLINK3args args, rpcrdma::MutableBytes into,
                 Done<nfs3::READLINK3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done), into);
  }
  void read(Caller caller, nfs3::READ3args args, rpcrdma::MutableBytes into,
            Done<nfs3::READ3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done), into);
  }
  void write(Caller caller, nfs3::WRITE3args args, Done<nfs3::WRITE3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void create(Caller caller, nfs3::CREATE3args args, Done<nfs3::CREATE3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void make_directory(Caller caller, nfs3::MKDIR3args args, Done<nfs3::MKDIR3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void make_symbolic_link(Caller caller, nfs3::SYMLINK3args args,
                          Done<nfs3::SYMLINK3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void make_node(Caller caller, nfs3::MKNOD3args args, Done<nfs3::MKNOD3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void remove(Caller caller, nfs3::REMOVE3args args, Done<nfs3::REMOVE3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void remove_directory(Caller caller, nfs3::RMDIR3args args, Done<nfs3::RMDIR3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void rename(Caller caller, nfs3::RENAME3args args, Done<nfs3::RENAME3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void link(Caller caller, nfs3::LINK3args args, Done<nfs3::LINK3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void read_directory(Caller caller, nfs3::READDIR3args args,
                      Done<nfs3::READDIR3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void read_directory_plus(Caller caller, nfs3::READDIRPLUS3args args,
                           Done<nfs3::READDIRPLUS3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void space(Caller caller, nfs3::FSSTAT3args args, Done<nfs3::FSSTAT3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void limits(Caller caller, nfs3::FSINFO3args args, Done<nfs3::FSINFO3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void path_limits(Caller caller, nfs3::PATHCONF3args args,
                   Done<nfs3::PATHCONF3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }
  void commit(Caller caller, nfs3::COMMIT3args args, Done<nfs3::COMMIT3res> done) override {
    derived().start(std::move(caller), std::move(args), std::move(done));
  }

 private:
  Derived& derived() noexcept { return static_cast<Derived&>(*this); }
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_DISPATCH_H_
