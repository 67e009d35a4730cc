"""IREE's compiler as a code generator: a region becomes an object, its workgroups become rTasks."""
